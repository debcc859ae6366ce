"""The methods of simindex in plain Python: what the tests compare with, and what to read first.

Its chapters are modules, in the order in which a document takes them; their definitions are offered here:

    shingles      text -> normalised text -> words or characters -> shingles
    hashes        shingles -> 64-bit hashes; universal hashing; the draws that coefficients are made of
    minhash       sets -> signatures -> estimated similarities, beside the exact ones by brute force
    banding       signatures -> bands -> candidate pairs; the S-curve
    fingerprints  hashes -> SimHash fingerprints -> distances
    permutations  fingerprints -> sorted lists in permuted orders -> all within k bits
    groups        similar pairs -> components and stars
    containment   hashes -> samples -> how much of one document is in another

Owns one short definition of every step from a text to its candidates. Imports nothing of simindex besides
itself and nothing compiled, so that no error elsewhere can hide here. Must not be fast; the library must not
call it. Sources are the papers that the docstrings name and the five documents that simindex implements,
named by their numbers:

    seed 000  Finding Similar Items (2), course slides (MPEI, Aveiro, 2018): MinHash by permutations
    seed 001  MinHashing and LSH, part 2 (Hanna and Hunt, 2015): hash functions, choice of bands
    seed 002  Finding Near Duplicates, slides after Motwani and Ullman: row hashing in one pass
    seed 003  Busca por Similaridade, slides (Soares da Silva, 2013, after Ullman): banding, the S-curve
    seed 004  Алгоритмы MinHash и SimHash, a lecture (Gorshkov): bags of words, SimHash, sorted lists

Invariant: what a result depends on (shingles, `shingle_hash`, `word_shingle_hash`, `row_coefficients`,
`similarity_rows`, `row_values`, `band_words`, `estimated_jaccard`, `best_jaccard`, `estimated_size`, both
SimHashes, blocks and `permutation_orders`, `sampled_hashes`) equals the library bit for bit. Character tables
are those of the running Python; the library's stand still at Unicode 14.0, so texts with later characters may
be cut elsewhere.
"""

from simindex.textbook.banding import (
    band_buckets,
    band_hashes,
    band_words,
    candidate_pairs,
    candidate_probability,
    pick_bands,
    prefix_probability,
    shares_prefix,
)
from simindex.textbook.containment import (
    containment,
    containment_error,
    corrected_containment,
    estimated_containment,
    meeting_probability,
    mix64,
    sample_hash,
    sampled_hashes,
)
from simindex.textbook.fingerprints import (
    hamming,
    simhash,
    simhash_counters,
    sorted_neighbours,
    weighted_simhash,
)
from simindex.textbook.groups import components, stars
from simindex.textbook.hashes import (
    djb2a,
    folded_hash,
    shingle_hash,
    splitmix64,
    universal_hash,
    word_shingle_hash,
)
from simindex.textbook.minhash import (
    best_jaccard,
    boolean_matrix,
    bottom_hashes,
    brute_force_matches,
    brute_force_pairs,
    columns,
    estimated_jaccard,
    estimated_size,
    first_rows,
    jaccard,
    kept_jaccard,
    minhash_rows,
    mix32,
    permutation_minhash,
    round_multipliers,
    row_coefficients,
    row_hashing,
    row_values,
    signature_agreement,
    similarity_rows,
    spread,
)
from simindex.textbook.permutations import PermutationTables, blocks, permutation_orders, permute, restore
from simindex.textbook.shingles import character_class, character_shingles, normalize, word_shingles, words

__all__ = [
    "PermutationTables",
    "band_buckets",
    "band_hashes",
    "band_words",
    "best_jaccard",
    "blocks",
    "boolean_matrix",
    "bottom_hashes",
    "brute_force_matches",
    "brute_force_pairs",
    "candidate_pairs",
    "candidate_probability",
    "character_class",
    "character_shingles",
    "columns",
    "components",
    "containment",
    "containment_error",
    "corrected_containment",
    "djb2a",
    "estimated_containment",
    "estimated_jaccard",
    "estimated_size",
    "first_rows",
    "folded_hash",
    "hamming",
    "jaccard",
    "kept_jaccard",
    "meeting_probability",
    "minhash_rows",
    "mix32",
    "mix64",
    "normalize",
    "permutation_minhash",
    "permutation_orders",
    "permute",
    "pick_bands",
    "prefix_probability",
    "restore",
    "round_multipliers",
    "row_coefficients",
    "row_hashing",
    "row_values",
    "sample_hash",
    "sampled_hashes",
    "shares_prefix",
    "shingle_hash",
    "signature_agreement",
    "simhash",
    "simhash_counters",
    "similarity_rows",
    "sorted_neighbours",
    "splitmix64",
    "spread",
    "stars",
    "universal_hash",
    "weighted_simhash",
    "word_shingle_hash",
    "word_shingles",
    "words",
]

"""The alphabet of the hashing contract: letters, marks, symbols and white space; how they fold.

The kernel and the Python side read them from here, so an index answers the same under every Python version.
`tests/sketching/test_alphabet.py` checks them against `unicodedata`.

A range is `first-last` in hexadecimal; a lone value is a range of one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

import numpy as np

(
    WORD_CLASS,
    ALONE_CLASS,
    MARK_CLASS,
    SPACE_CLASS,
    FLAG_CLASS,
    MODIFIER_CLASS,
    SELECTOR_CLASS,
) = range(1, 8)
"""The class of a code point, as the kernel numbers them; 0 is every other one."""

FOLDS_BIT = 0x80
"""Set in a code point's class when case folding changes it."""

WORD = """
30-39 41-5a 5f 61-7a aa b2-b3 b5 b9-ba bc-be c0-d6 d8-f6 f8-2c1 2c6-2d1 2e0-2e4 2ec 2ee 370-374
376-377 37a-37d 37f 386 388-38a 38c 38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 559 560-588 5d0-5ea
5ef-5f2 620-64a 660-669 66e-66f 671-6d3 6d5 6e5-6e6 6ee-6fc 6ff 710 712-72f 74d-7a5 7b1 7c0-7ea
7f4-7f5 7fa 800-815 81a 824 828 840-858 860-86a 870-887 889-88e 8a0-8c9 904-939 93d 950 958-961
966-96f 971-980 985-98c 98f-990 993-9a8 9aa-9b0 9b2 9b6-9b9 9bd 9ce 9dc-9dd 9df-9e1 9e6-9f1 9f4-9f9
9fc a05-a0a a0f-a10 a13-a28 a2a-a30 a32-a33 a35-a36 a38-a39 a59-a5c a5e a66-a6f a72-a74 a85-a8d
a8f-a91 a93-aa8 aaa-ab0 ab2-ab3 ab5-ab9 abd ad0 ae0-ae1 ae6-aef af9 b05-b0c b0f-b10 b13-b28 b2a-b30
b32-b33 b35-b39 b3d b5c-b5d b5f-b61 b66-b6f b71-b77 b83 b85-b8a b8e-b90 b92-b95 b99-b9a b9c b9e-b9f
ba3-ba4 ba8-baa bae-bb9 bd0 be6-bf2 c05-c0c c0e-c10 c12-c28 c2a-c39 c3d c58-c5a c5d c60-c61 c66-c6f
c78-c7e c80 c85-c8c c8e-c90 c92-ca8 caa-cb3 cb5-cb9 cbd cdd-cde ce0-ce1 ce6-cef cf1-cf2 d04-d0c
d0e-d10 d12-d3a d3d d4e d54-d56 d58-d61 d66-d78 d7a-d7f d85-d96 d9a-db1 db3-dbb dbd dc0-dc6 de6-def
e50-e59 ed0-ed9 f00 f20-f33 f40-f47 f49-f6c f88-f8c 1040-1049 1090-1099 10a0-10c5 10c7 10cd
10d0-10fa 10fc-1248 124a-124d 1250-1256 1258 125a-125d 1260-1288 128a-128d 1290-12b0 12b2-12b5
12b8-12be 12c0 12c2-12c5 12c8-12d6 12d8-1310 1312-1315 1318-135a 1369-137c 1380-138f 13a0-13f5
13f8-13fd 1401-166c 166f-167f 1681-169a 16a0-16ea 16ee-16f8 1700-1711 171f-1731 1740-1751 1760-176c
176e-1770 17e0-17e9 17f0-17f9 1810-1819 1820-1878 1880-1884 1887-18a8 18aa 18b0-18f5 1900-191e
1946-194f 19d0-19da 1a00-1a16 1a80-1a89 1a90-1a99 1b05-1b33 1b45-1b4c 1b50-1b59 1b83-1ba0 1bae-1be5
1c00-1c23 1c40-1c49 1c4d-1c7d 1c80-1c88 1c90-1cba 1cbd-1cbf 1ce9-1cec 1cee-1cf3 1cf5-1cf6 1cfa
1d00-1dbf 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4
1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2070-2071
2074-2079 207f-2089 2090-209c 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2139
213c-213f 2145-2149 214e 2150-2189 2460-249b 24ea-24ff 2776-2793 2c00-2ce4 2ceb-2cee 2cf2-2cf3 2cfd
2d00-2d25 2d27 2d2d 2d30-2d67 2d6f 2d80-2d96 2da0-2da6 2da8-2dae 2db0-2db6 2db8-2dbe 2dc0-2dc6
2dc8-2dce 2dd0-2dd6 2dd8-2dde 2e2f 3021-3029 3038-303a 3131-318e 3192-3195 3220-3229 3248-324f
3251-325f 3280-3289 32b1-32bf a4d0-a4fd a500-a60c a610-a62b a640-a66e a67f-a69d a6a0-a6ef a717-a71f
a722-a788 a78b-a7ca a7d0-a7d1 a7d3 a7d5-a7d9 a7f2-a801 a803-a805 a807-a80a a80c-a822 a830-a835
a840-a873 a882-a8b3 a8d0-a8d9 a8f2-a8f7 a8fb a8fd-a8fe a900-a925 a930-a946 a960-a97c a984-a9b2
a9cf-a9d9 a9f0-a9f9 aa00-aa28 aa40-aa42 aa44-aa4b aa50-aa59 aae0-aaea aaf2-aaf4 ab01-ab06 ab09-ab0e
ab11-ab16 ab20-ab26 ab28-ab2e ab30-ab5a ab5c-ab69 ab70-abe2 abf0-abf9 ac00-d7a3 d7b0-d7c6 d7cb-d7fb
fb00-fb06 fb13-fb17 fb1d fb1f-fb28 fb2a-fb36 fb38-fb3c fb3e fb40-fb41 fb43-fb44 fb46-fbb1 fbd3-fd3d
fd50-fd8f fd92-fdc7 fdf0-fdfb fe70-fe74 fe76-fefc ff10-ff19 ff21-ff3a ff41-ff5a ffa0-ffbe ffc2-ffc7
ffca-ffcf ffd2-ffd7 ffda-ffdc 10000-1000b 1000d-10026 10028-1003a 1003c-1003d 1003f-1004d
10050-1005d 10080-100fa 10107-10133 10140-10178 1018a-1018b 10280-1029c 102a0-102d0 102e1-102fb
10300-10323 1032d-1034a 10350-10375 10380-1039d 103a0-103c3 103c8-103cf 103d1-103d5 10400-1049d
104a0-104a9 104b0-104d3 104d8-104fb 10500-10527 10530-10563 10570-1057a 1057c-1058a 1058c-10592
10594-10595 10597-105a1 105a3-105b1 105b3-105b9 105bb-105bc 10600-10736 10740-10755 10760-10767
10780-10785 10787-107b0 107b2-107ba 10800-10805 10808 1080a-10835 10837-10838 1083c 1083f-10855
10858-10876 10879-1089e 108a7-108af 108e0-108f2 108f4-108f5 108fb-1091b 10920-10939 10980-109b7
109bc-109cf 109d2-10a00 10a10-10a13 10a15-10a17 10a19-10a35 10a40-10a48 10a60-10a7e 10a80-10a9f
10ac0-10ac7 10ac9-10ae4 10aeb-10aef 10b00-10b35 10b40-10b55 10b58-10b72 10b78-10b91 10ba9-10baf
10c00-10c48 10c80-10cb2 10cc0-10cf2 10cfa-10d23 10d30-10d39 10e60-10e7e 10e80-10ea9 10eb0-10eb1
10f00-10f27 10f30-10f45 10f51-10f54 10f70-10f81 10fb0-10fcb 10fe0-10ff6 11003-11037 11052-1106f
11071-11072 11075 11083-110af 110d0-110e8 110f0-110f9 11103-11126 11136-1113f 11144 11147
11150-11172 11176 11183-111b2 111c1-111c4 111d0-111da 111dc 111e1-111f4 11200-11211 11213-1122b
11280-11286 11288 1128a-1128d 1128f-1129d 1129f-112a8 112b0-112de 112f0-112f9 11305-1130c
1130f-11310 11313-11328 1132a-11330 11332-11333 11335-11339 1133d 11350 1135d-11361 11400-11434
11447-1144a 11450-11459 1145f-11461 11480-114af 114c4-114c5 114c7 114d0-114d9 11580-115ae
115d8-115db 11600-1162f 11644 11650-11659 11680-116aa 116b8 116c0-116c9 11730-1173b 11800-1182b
118a0-118f2 118ff-11906 11909 1190c-11913 11915-11916 11918-1192f 1193f 11941 11950-11959
119a0-119a7 119aa-119d0 119e1 119e3 11a00 11a0b-11a32 11a3a 11a50 11a5c-11a89 11a9d 11ab0-11af8
11c00-11c08 11c0a-11c2e 11c40 11c50-11c6c 11c72-11c8f 11d00-11d06 11d08-11d09 11d0b-11d30 11d46
11d50-11d59 11d60-11d65 11d67-11d68 11d6a-11d89 11d98 11da0-11da9 11ee0-11ef2 11fb0 11fc0-11fd4
12000-12399 12400-1246e 12480-12543 12f90-12ff0 13000-1342e 14400-14646 16800-16a38 16a40-16a5e
16a60-16a69 16a70-16abe 16ac0-16ac9 16ad0-16aed 16b00-16b2f 16b40-16b43 16b50-16b59 16b5b-16b61
16b63-16b77 16b7d-16b8f 16e40-16e96 16f00-16f4a 16f50 16f93-16f9f 16fe3 17000-187f7 18d00-18d08
1bc00-1bc6a 1bc70-1bc7c 1bc80-1bc88 1bc90-1bc99 1d2e0-1d2f3 1d360-1d378 1d400-1d454 1d456-1d49c
1d49e-1d49f 1d4a2 1d4a5-1d4a6 1d4a9-1d4ac 1d4ae-1d4b9 1d4bb 1d4bd-1d4c3 1d4c5-1d505 1d507-1d50a
1d50d-1d514 1d516-1d51c 1d51e-1d539 1d53b-1d53e 1d540-1d544 1d546 1d54a-1d550 1d552-1d6a5
1d6a8-1d6c0 1d6c2-1d6da 1d6dc-1d6fa 1d6fc-1d714 1d716-1d734 1d736-1d74e 1d750-1d76e 1d770-1d788
1d78a-1d7a8 1d7aa-1d7c2 1d7c4-1d7cb 1d7ce-1d7ff 1df00-1df1e 1e100-1e12c 1e137-1e13d 1e140-1e149
1e14e 1e290-1e2ad 1e2c0-1e2eb 1e2f0-1e2f9 1e7e0-1e7e6 1e7e8-1e7eb 1e7ed-1e7ee 1e7f0-1e7fe
1e800-1e8c4 1e8c7-1e8cf 1e900-1e943 1e94b 1e950-1e959 1ec71-1ecab 1ecad-1ecaf 1ecb1-1ecb4
1ed01-1ed2d 1ed2f-1ed3d 1ee00-1ee03 1ee05-1ee1f 1ee21-1ee22 1ee24 1ee27 1ee29-1ee32 1ee34-1ee37
1ee39 1ee3b 1ee42 1ee47 1ee49 1ee4b 1ee4d-1ee4f 1ee51-1ee52 1ee54 1ee57 1ee59 1ee5b 1ee5d 1ee5f
1ee61-1ee62 1ee64 1ee67-1ee6a 1ee6c-1ee72 1ee74-1ee77 1ee79-1ee7c 1ee7e 1ee80-1ee89 1ee8b-1ee9b
1eea1-1eea3 1eea5-1eea9 1eeab-1eebb 1f100-1f10c 1fbf0-1fbf9
"""
"""Letters (L*), digits and other numbers (N*) of the scripts that put spaces between words, and `_`."""

ALONE = """
e01-e30 e32-e33 e40-e46 e81-e82 e84 e86-e8a e8c-ea3 ea5 ea7-eb0 eb2-eb3 ebd ec0-ec4 ec6 edc-edf
1000-102a 103f 1050-1055 105a-105d 1061 1065-1066 106e-1070 1075-1081 108e 1780-17b3 17d7 17dc
1950-196d 1970-1974 1980-19ab 19b0-19c9 1a20-1a54 1aa7 3005-3007 3031-3035 303b-303c 3041-3096
309d-309f 30a1-30fa 30fc-30ff 3105-312f 31a0-31bf 31f0-31ff 3400-4dbf 4e00-a48c a9e0-a9e4 a9e6-a9ef
a9fa-a9fe aa60-aa76 aa7a aa7e-aaaf aab1 aab5-aab6 aab9-aabd aac0 aac2 aadb-aadd f900-fa6d fa70-fad9
ff66-ff9f 11700-1171a 11740-11746 16fe0-16fe1 18800-18cd5 1aff0-1aff3 1aff5-1affb 1affd-1affe
1b000-1b122 1b150-1b152 1b164-1b167 1b170-1b2fb 20000-2a6df 2a700-2b738 2b740-2b81d 2b820-2cea1
2ceb0-2ebe0 2f800-2fa1d 30000-3134a
"""
"""Letters of the scripts without spaces: each is a word of its own."""

MARK = """
300-36f 483-489 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-65f 670 6d6-6dc 6df-6e4 6e7-6e8 6ea-6ed
711 730-74a 7a6-7b0 7eb-7f3 7fd 816-819 81b-823 825-827 829-82d 859-85b 898-89f 8ca-8e1 8e3-903
93a-93c 93e-94f 951-957 962-963 981-983 9bc 9be-9c4 9c7-9c8 9cb-9cd 9d7 9e2-9e3 9fe a01-a03 a3c
a3e-a42 a47-a48 a4b-a4d a51 a70-a71 a75 a81-a83 abc abe-ac5 ac7-ac9 acb-acd ae2-ae3 afa-aff b01-b03
b3c b3e-b44 b47-b48 b4b-b4d b55-b57 b62-b63 b82 bbe-bc2 bc6-bc8 bca-bcd bd7 c00-c04 c3c c3e-c44
c46-c48 c4a-c4d c55-c56 c62-c63 c81-c83 cbc cbe-cc4 cc6-cc8 cca-ccd cd5-cd6 ce2-ce3 d00-d03 d3b-d3c
d3e-d44 d46-d48 d4a-d4d d57 d62-d63 d81-d83 dca dcf-dd4 dd6 dd8-ddf df2-df3 e31 e34-e3a e47-e4e eb1
eb4-ebc ec8-ecd f18-f19 f35 f37 f39 f3e-f3f f71-f84 f86-f87 f8d-f97 f99-fbc fc6 102b-103e 1056-1059
105e-1060 1062-1064 1067-106d 1071-1074 1082-108d 108f 109a-109d 135d-135f 1712-1715 1732-1734
1752-1753 1772-1773 17b4-17d3 17dd 180b-180d 180f 1885-1886 18a9 1920-192b 1930-193b 1a17-1a1b
1a55-1a5e 1a60-1a7c 1a7f 1ab0-1ace 1b00-1b04 1b34-1b44 1b6b-1b73 1b80-1b82 1ba1-1bad 1be6-1bf3
1c24-1c37 1cd0-1cd2 1cd4-1ce8 1ced 1cf4 1cf7-1cf9 1dc0-1dff 20d0-20e2 20e4-20f0 2cef-2cf1 2d7f
2de0-2dff 302a-302f 3099-309a a66f-a672 a674-a67d a69e-a69f a6f0-a6f1 a802 a806 a80b a823-a827 a82c
a880-a881 a8b4-a8c5 a8e0-a8f1 a8ff a926-a92d a947-a953 a980-a983 a9b3-a9c0 a9e5 aa29-aa36 aa43
aa4c-aa4d aa7b-aa7d aab0 aab2-aab4 aab7-aab8 aabe-aabf aac1 aaeb-aaef aaf5-aaf6 abe3-abea abec-abed
fb1e fe00-fe0d fe20-fe2f 101fd 102e0 10376-1037a 10a01-10a03 10a05-10a06 10a0c-10a0f 10a38-10a3a
10a3f 10ae5-10ae6 10d24-10d27 10eab-10eac 10f46-10f50 10f82-10f85 11000-11002 11038-11046 11070
11073-11074 1107f-11082 110b0-110ba 110c2 11100-11102 11127-11134 11145-11146 11173 11180-11182
111b3-111c0 111c9-111cc 111ce-111cf 1122c-11237 1123e 112df-112ea 11300-11303 1133b-1133c
1133e-11344 11347-11348 1134b-1134d 11357 11362-11363 11366-1136c 11370-11374 11435-11446 1145e
114b0-114c3 115af-115b5 115b8-115c0 115dc-115dd 11630-11640 116ab-116b7 1171d-1172b 1182c-1183a
11930-11935 11937-11938 1193b-1193e 11940 11942-11943 119d1-119d7 119da-119e0 119e4 11a01-11a0a
11a33-11a39 11a3b-11a3e 11a47 11a51-11a5b 11a8a-11a99 11c2f-11c36 11c38-11c3f 11c92-11ca7
11ca9-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 11d8a-11d8e 11d90-11d91 11d93-11d97
11ef3-11ef6 16af0-16af4 16b30-16b36 16f4f 16f51-16f87 16f8f-16f92 16fe4 16ff0-16ff1 1bc9d-1bc9e
1cf00-1cf2d 1cf30-1cf46 1d165-1d169 1d16d-1d172 1d17b-1d182 1d185-1d18b 1d1aa-1d1ad 1d242-1d244
1da00-1da36 1da3b-1da6c 1da75 1da84 1da9b-1da9f 1daa1-1daaf 1e000-1e006 1e008-1e018 1e01b-1e021
1e023-1e024 1e026-1e02a 1e130-1e136 1e2ae 1e2ec-1e2ef 1e8d0-1e8d6 1e944-1e94a e0100-e01ef
"""
"""Combining marks (M*): they continue the word before them and never begin one."""

SPACE = """
9-d 1c-20 85 a0 1680 2000-200a 2028-2029 202f 205f 3000
"""
"""White space, as str.isspace has it."""

UNCLASSED = """
0-375 37e 384-387 3f6-482 55a-58a 58d-58f 5be-5c6 5f3-5f4 600-70d 70f 7f6-7f9 7fe-7ff 830-83e 85e 888
890-891 8e2-970 9f2-9fd a76 af0-af1 b70 bf3-bfa c77-c84 d4f d79 df4 e3f-e5b f01-f3d f85 fbe-fcc fce-fda
104a-109f 10fb 1360-1368 1390-1399 1400-169c 16eb-16ed 1735-1736 17d4-17db 1800-180e 1940 1944-1945
19de-19ff 1a1e-1a1f 1aa0-1aad 1b5a-1b7e 1bfc-1bff 1c3b-1c3f 1c7e-1c7f 1cc0-1cc7 1cd3 1fbd-1fc1 1fcd-1fcf
1fdd-1fef 1ffd-1ffe 200b-2064 2066-206f 207a-208e 20a0-20c0 2100-218b 2308-232a 2500-29fd 2cf9-2cff 2d70
2e00-2e5d 3001-301f 309b-30fb a4fe-a60f a673-a6f7 a700-a78a a838 a874-a877 a8ce-a8cf a8f8-a92f a95f
a9c1-a9cd a9de-a9df aa5c-aa5f aade-aaf1 ab5b-ab6b abeb d800-f8ff fbb2-fbc2 fd3e-fd3f fdfc-fe19 fe30-fe52
fe54-fe66 fe68-fe6b feff ff01-ff65 ffe0-ffe6 ffe8-ffee fff9-fffd 10100-10102 1039f 103d0 1056f 10857 1091f
1093f 10a50-10a58 10a7f 10af0-10af6 10b39-10b3f 10b99-10b9c 10ead 10f55-10f59 10f86-10f89 11047-1104d
110bb-110c1 110cd 11140-11143 11174-11175 111c5-111df 11238-1123d 112a9 1144b-1145b 1145d 114c6 115c1-115d7
11641-11643 11660-1166c 116b9 1173c-1173e 1183b 11944-11946 119e2 11a3f-11a46 11a9a-11aa2 11c41-11c45
11c70-11c71 11ef7-11ef8 11fdd-11fe0 11fff 12470-12474 12ff1-12ff2 13430-13438 16a6e-16a6f 16af5 16b37-16b44
16e97-16e9a 16fe2 1bc9f-1bca3 1d173-1d17a 1da87-1da8b 1e2ff 1e95e-1e95f 1ecb0 1f000-1f02b 1f030-1f093
1f0a0-1f0ae 1f0b1-1f0bf 1f0c1-1f0cf 1f0d1-1f0f5 1f100-1f1ad 1f1e6-1f202 1f210-1f23b 1f240-1f248 1f250-1f251
1f260-1f265 1f300-1f6d7 1f6dd-1f6ec 1f6f0-1f6fc 1f700-1f773 1f780-1f7d8 1f7e0-1f7eb 1f7f0 1f800-1f80b
1f810-1f847 1f850-1f859 1f860-1f887 1f890-1f8ad 1f8b0-1f8b1 1f900-1fa53 1fa60-1fa6d 1fa70-1fa74 1fa78-1fa7c
1fa80-1fa86 1fa90-1faac 1fab0-1faba 1fac0-1fac5 1fad0-1fad9 1fae0-1fae7 1faf0-1faf6 1fb00-1fb92 1fb94-1fbca
1fbf0-1fbf9 e0001 f0000-ffffd 100000-10fffd
"""
"""Assigned code points of Unicode 14.0 that have no class, and all between U+1F000 and U+1FFFF, where classes
have others, too; ranges may hold some that have one. Surrogates and private use are assigned."""

SYMBOL = """
2190-2307 230c-2328 232b-2426 2440-244a 249c-24e9 25a0-2767 2794-27c4 27c7-27e5 27f0-2982 2999-29d7
29dc-29fb 29fe-2b73 2b76-2b95 2b97-2bff 2ce5-2cea 2e50-2e51 2e80-2e99 2e9b-2ef3 2f00-2fd5 2ff0-2ffb
3004 3012-3013 3020 3030 3036-3037 303d-303f 3190-3191 3196-319f 31c0-31e3 3200-321e 322a-3247 3250
3260-327f 328a-32b0 32c0-33ff 4dc0-4dff a490-a4c6 a828-a82b a836-a837 a839 aa77-aa79 fb29 fd40-fd4f
fdcf fdfd-fdff 10137-1013f 10179-10189 1018c-1018e 10190-1019c 101a0 101d0-101fc 10877-10878 10ac8
1173f 11fd5-11fdc 11fe1-11ff1 16b3c-16b3f 16b45 1bc9c 1cf50-1cfc3 1d000-1d0f5 1d100-1d126
1d129-1d164 1d16a-1d16c 1d183-1d184 1d18c-1d1a9 1d1ae-1d1ea 1d200-1d241 1d245 1d300-1d356 1d6c1
1d6db 1d6fb 1d715 1d735 1d74f 1d76f 1d789 1d7a9 1d7c3 1d800-1d9ff 1da37-1da3a 1da6d-1da74
1da76-1da83 1da85-1da86 1e14f 1ecac 1ed2e 1eef0-1eef1 1f000-1f0ff 1f10d-1f1e5 1f200-1f3fa
1f400-1fb92 1fb94-1fbca 1fc00-1fffd
"""
"""Symbols and pictographs, each a word of its own (ALONE_CLASS), from U+2190 (arrows) on.

Categories So and Sm of Unicode 14.0, and its property Extended_Pictographic (emoji-data.txt, Unicode
Technical Standard 51), which has unassigned code points, too: a later version's emoji come from these.
Without U+2500..U+259F, which draw lines, and U+FE00..U+FFFF: other forms of ASCII signs, and U+FFFD.
"""

FLAG = "1f1e6-1f1ff"
"""Regional indicators: two are a flag."""

MODIFIER = "20e3 1f3fb-1f3ff"
"""What changes the emoji before it and is seen without one, too: the keycap, skin tones."""

SELECTOR = "fe0e-fe0f"
"""Variation selectors 15 and 16: a pictograph as text, as an emoji. The same text comes with and without."""

TAG = "e0020-e007f"
"""Tags, which spell the region of a flag behind it (MARK_CLASS)."""

DIGIT = """
30-39 660-669 6f0-6f9 7c0-7c9 966-96f 9e6-9ef a66-a6f ae6-aef b66-b6f be6-bef c66-c6f ce6-cef
d66-d6f de6-def e50-e59 ed0-ed9 f20-f29 1040-1049 1090-1099 17e0-17e9 1810-1819 1946-194f 19d0-19d9
1a80-1a89 1a90-1a99 1b50-1b59 1bb0-1bb9 1c40-1c49 1c50-1c59 a620-a629 a8d0-a8d9 a900-a909 a9d0-a9d9
a9f0-a9f9 aa50-aa59 abf0-abf9 ff10-ff19 104a0-104a9 10d30-10d39 11066-1106f 110f0-110f9 11136-1113f
111d0-111d9 112f0-112f9 11450-11459 114d0-114d9 11650-11659 116c0-116c9 11730-11739 118e0-118e9
11950-11959 11c50-11c59 11d50-11d59 11da0-11da9 16a60-16a69 16ac0-16ac9 16b50-16b59 1d7ce-1d7ff
1e140-1e149 1e2f0-1e2f9 1e950-1e959 1fbf0-1fbf9
"""
"""Decimal digits, category Nd; all are of WORD_CLASS."""

DIACRITIC = """
300-36f 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-652 656-65f 670 6d6-6dc 6df-6e4 6e7-6e8 6ea-6ed
1ab0-1abd 1abf-1ace 1dc0-1dff 20d0-20dc 20e1 20e5-20f0 fe20-fe2f
"""
"""Combining marks of Latin, Greek and Cyrillic letters, Hebrew points, Arabic vowel and recitation marks.

Not the marks that make another letter: hamza and madda, the voiced marks of kana, vowel signs and viramas.
"""

CASED = """
41-24e 345-587 10a0-10cd 13f8-13fd 1c80-1cbf 1e00-1ffc 2126-2183 24b6-24cf 2c00-2cf2 a640-a7f5 ab70-abbf
fb00-fb17 ff21-ff3a 10400-10595 10c80-10cb2 118a0-118bf 16e40-16e5f 1e900-1e921
"""
"""Where case folding changes letters and marks."""


def ranges(text: str) -> list[tuple[int, int]]:
    """Return the (first, last) code points of each range of a range text, both inclusive."""
    ends = (item.partition("-") for item in text.split())
    return [(int(first, 16), int(last or first, 16)) for first, _, last in ends]


def inside_brackets(pairs: Iterable[tuple[int, int]]) -> str:
    """Return the ranges as they stand in the brackets of a regular expression."""
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in pairs)


_CLASSES = (
    (WORD_CLASS, WORD),
    (ALONE_CLASS, ALONE),
    (ALONE_CLASS, SYMBOL),
    (MARK_CLASS, MARK),
    (MARK_CLASS, TAG),
    (SPACE_CLASS, SPACE),
    (FLAG_CLASS, FLAG),
    (MODIFIER_CLASS, MODIFIER),
    (SELECTOR_CLASS, SELECTOR),
)
"""Every range text with its class, no code point in two."""


@cache
def folds() -> dict[int, tuple[int, ...]]:
    """Return code point -> its full case folding, for each that folding changes. Shared: not to be changed.

    Of what Unicode 14.0 has assigned, which never folds otherwise (Unicode: case folding stability).
    """
    codes = [code for first, last in ranges(CASED) for code in range(first, last + 1) if _classes()[code]]
    folded = {code: tuple(map(ord, chr(code).casefold())) for code in codes}
    return {code: folding for code, folding in folded.items() if folding != (code,)}


@cache
def _classes() -> bytes:
    table = bytearray(0x110000)
    for number, text in _CLASSES:
        for first, last in ranges(text):
            table[first : last + 1] = bytes([number]) * (last + 1 - first)
    return bytes(table)


@cache
def class_table() -> bytes:
    """Return one byte for each of the 0x110000 code points: its class, with FOLDS_BIT where it folds.

    Made once a process, in a few ms; the kernel reads it in place.
    """
    table = bytearray(_classes())
    for code in folds():
        table[code] |= FOLDS_BIT
    return bytes(table)


@cache
def fold_table() -> np.ndarray:
    """Return the foldings as uint32, shape (n, 4), ascending: code point, then its folding padded with 0."""
    rows = [(code, *folded, *(0,) * (3 - len(folded))) for code, folded in sorted(folds().items())]
    return np.array(rows, dtype=np.uint32)


def assigned() -> list[tuple[int, int]]:
    """Return ranges, inclusive, of all code points that Unicode 14.0 has assigned."""
    classed, table = re.compile(b"[^\0]+"), _classes()
    spans = (run.span() for part in ((0, 0x1F000), (0x20000,)) for run in classed.finditer(table, *part))
    return [*ranges(UNCLASSED), *((first, end - 1) for first, end in spans)]


@cache
def _assigned_runs() -> re.Pattern[str]:
    return re.compile(f"[{inside_brackets(assigned())}]+")


@cache
def _diacritics() -> re.Pattern[str]:
    return re.compile(f"[{inside_brackets(ranges(DIACRITIC))}]+")


def nfkc(text: str) -> str:
    """Return Unicode normalisation form KC of `text`, as of Unicode 14.0. Cost: linear in the text.

    Characters that a later Unicode assigned stay as they are and part the text, so that a newer Python gives
    the same result (an assigned character's normalisation never changes: Unicode Standard Annex 15, section
    3).
    """
    if text.isascii():
        return text
    return _assigned_runs().sub(lambda run: unicodedata.normalize("NFKC", run.group()), text)


def without_diacritics(text: str) -> str:
    """Return `text` in form C, as of Unicode 14.0, without the marks of DIACRITIC, as `nfkc`."""
    if text.isascii():
        return text
    return _assigned_runs().sub(
        lambda run: unicodedata.normalize(
            "NFC", _diacritics().sub("", unicodedata.normalize("NFD", run.group()))
        ),
        text,
    )

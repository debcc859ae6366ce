"""Which rows stay, where each is asked of a working index, and of other indexes beside it.

`star` decides batch by batch and stores what stays, `orders` brings rows into another order than the input's
before, and `store` hands what was kept to an index that outlives the job.
"""

"""Training of EAGLE-3 drafts: the base's own answers as data, then training-time test on them."""

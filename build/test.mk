# (owned by its part)

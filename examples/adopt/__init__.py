"""A team with a queue and a function of its own adopts lanes beside them."""

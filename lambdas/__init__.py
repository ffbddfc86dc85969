"""Entry points of the deployed functions, one folder for each function."""

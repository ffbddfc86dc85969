"""The plain pattern's function."""

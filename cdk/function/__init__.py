"""Lambda functions: their settings, and the assets with their code."""

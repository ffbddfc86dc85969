"""Charts as SVG files that need nothing else, for light and dark pages."""

"""GAIA: policies that delay cloud jobs for carbon, their published cells and other zones."""

"""`queue` with several resources, or with pools: transition, columns and live states."""

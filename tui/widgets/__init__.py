"""What screens are made of: lines of text, charts, ribbons, all drawn strip by strip."""

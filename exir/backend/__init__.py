"""The seam between programs and backends."""

"""The interface between programs and backends."""

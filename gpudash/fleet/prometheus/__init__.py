"""Hosts as a Prometheus knows them, or what speaks its API: Thanos, Mimir, VictoriaMetrics."""

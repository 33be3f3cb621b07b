"""What a run writes while it trains: metrics, gallery, terminal lines, and copies to W&B or TensorBoard."""

CONFIG_MODULES = ("config",)

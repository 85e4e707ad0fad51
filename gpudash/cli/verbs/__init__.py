"""What gpudash does when asked, one module per verb."""

"""What is done to logs and trees: breaks of each rule, damages, forgeries; what must see them."""

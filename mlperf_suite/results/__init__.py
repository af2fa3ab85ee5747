"""What a run leaves behind: its folder and its summary; the regression gate over two of them."""

"""The converter of pickles: pickles of other versions, files made to do harm."""

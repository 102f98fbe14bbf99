"""Facts and what they mean: records, envelope, codec, state and its fold."""

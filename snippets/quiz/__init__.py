"""Questions of each chapter, with a proof that computes the right answer."""

"""`lanes probe run`: experiments on AWS itself, their analysis, and the profile that the simulator reads."""

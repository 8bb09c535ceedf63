"""The launcher, around bundles real and written by hand, on devices that the fake driver has."""

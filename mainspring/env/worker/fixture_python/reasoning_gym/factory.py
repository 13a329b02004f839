"""The names of the data sets, as in reasoning_gym.factory."""

DATASETS = {"leg_counting": None, "spell_backward": None}

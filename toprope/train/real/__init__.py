"""The planner's methods run for real: a small vision-language model on torch.distributed processes of this machine."""

"""toprope: a software Ascend NPU. Write, run, check, time and ship Ascend C operators on any computer."""

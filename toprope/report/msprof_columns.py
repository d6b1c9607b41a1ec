"""The columns of the vendor's `msprof op` files, in its order (header table of Ascend/msopprof, 910B)."""

from __future__ import annotations

_IDS = ("block_id", "sub_block_id")
_AIC, _AIV = ("aic_time(us)", "aic_total_cycles"), ("aiv_time(us)", "aiv_total_cycles")


def _timed(kind: str, *pipes: str) -> tuple[str, ...]:
    return tuple(f"{kind}_{pipe}_{what}" for pipe in pipes for what in ("time(us)", "ratio"))


def _stalls(kind: str, *words: str) -> tuple[str, ...]:
    return tuple(f"{kind}_scalar_{word}_time(us)" for word in words)


def _counted(kind: str, *pipes: str) -> tuple[str, ...]:
    return tuple(f"{kind}_{pipe}_{what}" for pipe in pipes for what in ("instructions", "ratio"))


def _l2(kind: str) -> tuple[str, ...]:
    ways = ("write", "r0_read", "r1_read")
    counts = tuple(f"{kind}_{way}_cache_{what}" for way in ways for what in ("hit", "miss_allocate"))
    return (*counts, *(f"{kind}_{what}_hit_rate(%)" for what in ("write", "read", "total")))


COLUMNS: dict[str, tuple[str, ...]] = {
    "PipeUtilization": (
        *_IDS, *_AIC, *_timed("aic", "cube", "mte1", "mte2", "mte3"), "aic_mte3_active_bw(GB/s)", *_timed("aic", "fixpipe"),
        "aic_fixpipe_active_bw(GB/s)", "aic_icache_miss_rate", *_timed("aic", "scalar"),
        *_stalls("aic", "single", "dual", "mte1_stall", "mte2_stall", "mte3_stall", "cube_stall", "wait_ib", "wait"),
        *_AIV, *_timed("aiv", "vec", "mte2"), "aiv_mte2_active_bw(GB/s)", *_timed("aiv", "mte3"), "aiv_mte3_active_bw(GB/s)",
        "aiv_icache_miss_rate", *_timed("aiv", "scalar"),
        *_stalls("aiv", "single", "dual", "mte2_stall", "mte3_stall", "stall_by_ub", "vector_stall", "wait_ib", "wait"),
    ),
    "ArithmeticUtilization": (
        *_IDS, *_AIC, "aic_cube_ratio", "aic_cube_fp16_ratio", "aic_cube_int8_ratio", "aic_cube_fops", "aic_cube_total_instr_number",
        "aic_cube_fp_instr_number", "aic_cube_int_instr_number", *_AIV, "aiv_vec_ratio", "aiv_vec_fp32_ratio", "aiv_vec_fp16_ratio",
        "aiv_vec_int32_ratio", "aiv_vec_int16_ratio", "aiv_vec_misc_ratio", "aiv_vec_fops",
    ),
    "Memory": (
        *_IDS, *_AIC, "aic_l1_read_bw(GB/s)", "aic_l1_write_bw(GB/s)", "aic_main_mem_read_bw(GB/s)", "aic_main_mem_write_bw(GB/s)",
        *_counted("aic", "mte1", "mte2", "mte3"), *_AIV, "aiv_ub_to_gm_bw(GB/s)", "aiv_gm_to_ub_bw(GB/s)", "aiv_main_mem_read_bw(GB/s)",
        "aiv_main_mem_write_bw(GB/s)", *_counted("aiv", "mte2", "mte3"), "read_main_memory_datas(KB)", "write_main_memory_datas(KB)",
        "GM_to_L1_datas(KB)(estimate)", "GM_to_L1_bw_usage_rate(%)(estimate)", "L1_to_GM_datas(KB)(estimate)",
        "L1_to_GM_bw_usage_rate(%)(estimate)", "L0C_to_L1_datas(KB)", "L0C_to_L1_bw_usage_rate(%)", "L0C_to_GM_datas(KB)",
        "L0C_to_GM_bw_usage_rate(%)", "GM_to_UB_datas(KB)", "GM_to_UB_bw_usage_rate(%)", "UB_to_GM_datas(KB)", "UB_to_GM_bw_usage_rate(%)",
    ),
    "MemoryL0": (
        *_IDS, *_AIC, "aic_l0a_read_bw(GB/s)", "aic_l0a_write_bw(GB/s)", "aic_l0b_read_bw(GB/s)", "aic_l0b_write_bw(GB/s)",
        "aic_l0c_read_bw_cube(GB/s)", "aic_l0c_write_bw_cube(GB/s)", *_AIV,
    ),
    "MemoryUB": (
        *_IDS, *_AIC, *_AIV, "aiv_ub_read_bw_vector(GB/s)", "aiv_ub_write_bw_vector(GB/s)", "aiv_ub_read_bw_scalar(GB/s)",
        "aiv_ub_write_bw_scalar(GB/s)",
    ),
    "L2Cache": (*_IDS, *_AIC, *_l2("aic"), *_AIV, *_l2("aiv")),
    "ResourceConflictRatio": (
        *_IDS, *_AIC, "aic_cube_wait_ratio", "aic_mte1_wait_ratio", "aic_mte2_wait_ratio", "aic_mte3_wait_ratio", *_AIV,
        "aiv_vec_total_cflt_ratio", "aiv_vec_bankgroup_cflt_ratio", "aiv_vec_bank_cflt_ratio", "aiv_vec_resc_cflt_ratio",
        "aiv_vec_mte_cflt_ratio", "aiv_vec_wait_ratio", "aiv_mte2_wait_ratio", "aiv_mte3_wait_ratio",
    ),
}  # fmt: skip

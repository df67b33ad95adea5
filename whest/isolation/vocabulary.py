"""The words of a program document: its operations, their parameters, and the few records and choices among them.

The list is closed and belongs to the format, not to the JAX that is installed. docs/format.md says what each word
means; a test holds the two against each other, and against what JAX has.
"""

FORMAT = 2
"""Raised when a document of the new kind would be read wrongly by an older reader."""

_PLAIN = """
abs acos acosh add add_any after_all and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil cholesky
cholesky_update clamp clz complex copy cos cosh create_token digamma div dynamic_update_slice eq eq_to erf erf_inv erfc
exp exp2 expm1 floor ge gt hessenberg householder_product imag is_finite le le_to lgamma log log1p log2 logistic lt
lt_to lu max min mul
ne neg nextafter not one_minus_square optimization_barrier or polygamma polynomial population_count pow
random_fold_in random_unwrap real rem rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh
sqrt square stop_gradient sub tan tanh threefry2x32 xor zeta
"""

_WINDOWED = "window_dimensions window_strides padding base_dilation window_dilation"
_SCATTERED = "dimension_numbers indices_are_sorted unique_indices mode update"

_WITH_PARAMETERS = {
    "scan": "n_consts n_carry length reverse unroll body",
    "while": "n_test n_body test body",
    "switch": "branches platforms",
    "approx_top_k": "k reduction_dimension recall_target is_max_k reduction_input_size_override aggregate_to_topk",
    **dict.fromkeys(("argmax", "argmin"), "axes index_dtype"),
    "bitcast_convert_type": "new_dtype",
    "broadcast_in_dim": "shape broadcast_dimensions",
    "concatenate": "dimension",
    "conj": "input_dtype",
    "conv_general_dilated": "window_strides padding lhs_dilation rhs_dilation dimension_numbers feature_group_count "
    "batch_group_count precision preferred_element_type",
    "convert_element_type": "new_dtype weak_type",
    **dict.fromkeys(("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"), "axis reverse"),
    "dot_general": "dimension_numbers precision preferred_element_type",
    "dynamic_slice": "slice_sizes",
    "eig": "compute_left_eigenvectors compute_right_eigenvectors enable_eigvec_derivs implementation",
    "eigh": "lower sort_eigenvalues subset_by_index algorithm",
    "fft": "fft_type fft_lengths",
    "gather": "dimension_numbers slice_sizes indices_are_sorted unique_indices mode fill_value",
    "integer_pow": "y",
    "iota": "dtype shape dimension",
    "lu_pivots_to_permutation": "permutation_size",
    "name": "name",
    "pad": "padding_config",
    "platform_index": "platforms",
    "qr": "pivoting full_matrices use_magma",
    "random_bits": "bit_width shape",
    **dict.fromkeys(("random_seed", "random_wrap"), "impl"),
    "random_split": "shape",
    **dict.fromkeys(
        "reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor".split(),
        "axes",
    ),
    "reduce_precision": "exponent_bits mantissa_bits",
    **dict.fromkeys(("reduce_window_max", "reduce_window_min", "reduce_window_sum"), _WINDOWED),
    "reshape": "new_sizes dimensions",
    "rev": "dimensions",
    "rng_bit_generator": "shape dtype algorithm",
    "rng_uniform": "shape",
    "round": "rounding_method",
    **dict.fromkeys("scatter scatter-add scatter-max scatter-min scatter-mul scatter-sub".split(), _SCATTERED),
    "schur": "compute_schur_vectors sort_eig_vals select_callable",
    "select_and_gather_add": f"select {_WINDOWED}",
    "select_and_scatter_add": "select window_dimensions window_strides padding",
    "slice": "start_indices limit_indices strides",
    "sort": "dimension is_stable num_keys",
    "split": "sizes axis",
    "squeeze": "dimensions",
    **dict.fromkeys(("stack", "unstack"), "axis"),
    "svd": "full_matrices compute_uv subset_by_index algorithm",
    "symmetric_product": "alpha beta",
    "tile": "reps",
    "top_k": "k axis",
    "transpose": "permutation",
    "triangular_solve": "left_side lower transpose_a conjugate_a unit_diagonal",
    "tridiagonal": "lower",
    "tridiagonal_solve": "perturb_singular",
}

OPERATIONS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_PLAIN.split(), frozenset()),
    **{name: frozenset(parameters.split()) for name, parameters in _WITH_PARAMETERS.items()},
}
"""What a program may consist of, and the parameters of each: all of them are written, and no others."""

CHOICES = {
    "GatherScatterMode": "CLIP FILL_OR_DROP PROMISE_IN_BOUNDS ONE_HOT",
    "Precision": "DEFAULT HIGH HIGHEST",
    "RandomAlgorithm": "RNG_DEFAULT RNG_THREE_FRY RNG_PHILOX",
    "FftType": "FFT IFFT RFFT IRFFT",
    "RoundingMethod": "AWAY_FROM_ZERO TO_NEAREST_EVEN",
    "DotAlgorithmPreset": "DEFAULT ANY_F8_ANY_F8_F32 ANY_F8_ANY_F8_F32_FAST_ACCUM ANY_F8_ANY_F8_ANY "
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM F16_F16_F16 F16_F16_F32 BF16_BF16_BF16 BF16_BF16_F32 BF16_BF16_F32_X3 "
    "BF16_BF16_F32_X6 BF16_BF16_F32_X9 TF32_TF32_F32 TF32_TF32_F32_X3 F32_F32_F32 F64_F64_F64",
}
"""Names of a value, by kind."""

KINDS = {
    "precision": "Precision DotAlgorithmPreset",
    "mode": "GatherScatterMode",
    "algorithm": "RandomAlgorithm",
    "fft_type": "FftType",
    "rounding_method": "RoundingMethod",
    "select": "str",
    "platforms": "str",
}
"""Parameters that are a choice or a text, and of which kind. No other parameter is one."""

RECORDS = {
    "GatherDimensionNumbers": "offset_dims collapsed_slice_dims start_index_map operand_batching_dims "
    "start_indices_batching_dims",
    "ScatterDimensionNumbers": "update_window_dims inserted_window_dims scatter_dims_to_operand_dims "
    "operand_batching_dims scatter_indices_batching_dims",
    "ConvDimensionNumbers": "lhs_spec rhs_spec out_spec",
}
"""Fields of a record, by kind: each a tuple of whole numbers."""

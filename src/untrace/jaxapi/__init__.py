"""The one door into JAX's unstable API.

Everything that lives in `jax._src`, `jax.extend` or `jax.interpreters`, and every
difference between the supported JAX releases, is absorbed in this package. Other
modules import names from here and never ask for JAX's version.
"""

from untrace.jaxapi.avals import (
    AVAL_FIELDS,
    FLOAT0,
    PRNGS,
    PRNGS_MODULE,
    ExtendedDType,
    JaxArray,
    KeyTy,
    PRNGImpl,
    ShapedArray,
    aval_of,
    cotangent_type,
    default_key_impl,
    dtype_kind,
    is_concrete,
    is_key,
    is_key_array,
    is_number,
    is_plain_aval,
    is_python_scalar,
    is_static_dim,
    is_token,
    is_traceable,
    key_impl_name,
    same_aval,
    same_type,
    short_type,
)
from untrace.jaxapi.batching import BATCH_SIZES as BATCH_SIZES
from untrace.jaxapi.batching import CUSTOM_VMAP as CUSTOM_VMAP
from untrace.jaxapi.batching import BatchingCall as BatchingCall
from untrace.jaxapi.batching import batching_call as batching_call
from untrace.jaxapi.batching import batching_rule as batching_rule
from untrace.jaxapi.batching import is_sequential as is_sequential
from untrace.jaxapi.batching import rule_of_leaves as rule_of_leaves
from untrace.jaxapi.binds import bind_again as bind_again
from untrace.jaxapi.binds import bind_codes as bind_codes
from untrace.jaxapi.binds import current_axes as current_axes
from untrace.jaxapi.binds import current_trace as current_trace
from untrace.jaxapi.binds import is_eager as is_eager
from untrace.jaxapi.binds import no_source_info as no_source_info
from untrace.jaxapi.binds import outside_traces as outside_traces
from untrace.jaxapi.binds import read_bind as read_bind
from untrace.jaxapi.binds import under_axes as under_axes
from untrace.jaxapi.called import Called as Called
from untrace.jaxapi.called import Method as Method
from untrace.jaxapi.called import Operator as Operator
from untrace.jaxapi.called import Property as Property
from untrace.jaxapi.called import Update as Update
from untrace.jaxapi.called import bound_arguments as bound_arguments
from untrace.jaxapi.comparing import (
    ORIGIN_FIELDS,
    ORIGIN_TYPES,
    array_key,
    rule_identity,
)
from untrace.jaxapi.compiles import JitCall as JitCall
from untrace.jaxapi.compiles import is_of_jax_itself as is_of_jax_itself
from untrace.jaxapi.compiles import jit_call as jit_call
from untrace.jaxapi.compiles import layout_of as layout_of
from untrace.jaxapi.compiles import trace_settings as trace_settings
from untrace.jaxapi.compiles import watching_compiles as watching_compiles
from untrace.jaxapi.config_options import PRIVATE_MANAGERS as PRIVATE_MANAGERS
from untrace.jaxapi.config_options import changed_settings as changed_settings
from untrace.jaxapi.config_options import environment_settings as environment_settings
from untrace.jaxapi.config_options import private_managers as private_managers
from untrace.jaxapi.contexts import (
    COMPUTE_CONTEXT,
    COMPUTE_ON,
    CONTEXT_FIELDS,
    DEFAULT_CONTEXT,
    ambient_context,
    compute_region,
    context_fields,
    context_mesh,
    equation_context,
    line_in_file,
    lines_in_file,
    manual_region,
    rule_context,
    scalar_mesh,
    scope_names,
    user_frame,
)
from untrace.jaxapi.error_checks import error_set_names as error_set_names
from untrace.jaxapi.error_checks import own_error_codes as own_error_codes
from untrace.jaxapi.evaluation import eval_jaxpr as eval_jaxpr
from untrace.jaxapi.evaluation import quiet_callbacks as quiet_callbacks
from untrace.jaxapi.exports import (
    Exported,
    SymbolicScope,
    exported_call,
    exported_digest,
    exported_dimensions,
    linear_in,
    scope_constraints,
)
from untrace.jaxapi.exports import InconclusiveError as InconclusiveError
from untrace.jaxapi.exports import dimension_as_value as dimension_as_value
from untrace.jaxapi.exports import is_symbolic as is_symbolic
from untrace.jaxapi.exports import largest_size as largest_size
from untrace.jaxapi.exports import smallest_size as smallest_size
from untrace.jaxapi.frames import UserFrame as UserFrame
from untrace.jaxapi.frames import forward_frames as forward_frames
from untrace.jaxapi.frames import innermost as innermost
from untrace.jaxapi.frames import is_backward as is_backward
from untrace.jaxapi.frames import is_made_by_jax as is_made_by_jax
from untrace.jaxapi.frames import jax_functions as jax_functions
from untrace.jaxapi.frames import line_at as line_at
from untrace.jaxapi.frames import origin as origin
from untrace.jaxapi.frames import set_source_info as set_source_info
from untrace.jaxapi.frames import source_info_of as source_info_of
from untrace.jaxapi.frames import user_frames as user_frames
from untrace.jaxapi.frames import users_place as users_place
from untrace.jaxapi.frames import whole_tracebacks as whole_tracebacks
from untrace.jaxapi.host_checks import ErrorCheck as ErrorCheck
from untrace.jaxapi.host_checks import checked_message as checked_message
from untrace.jaxapi.host_checks import error_check as error_check
from untrace.jaxapi.host_checks import is_error_function as is_error_function
from untrace.jaxapi.implementations import bound as bound
from untrace.jaxapi.implementations import (
    differentiates_otherwise as differentiates_otherwise,
)
from untrace.jaxapi.implementations import implementation as implementation
from untrace.jaxapi.implementations import pulled_back as pulled_back
from untrace.jaxapi.implementations import pulls_back_otherwise as pulls_back_otherwise
from untrace.jaxapi.implementations import refusing_original as refusing_original
from untrace.jaxapi.implementations import transforms_otherwise as transforms_otherwise
from untrace.jaxapi.jaxprs import (
    JAXPR_TYPES,
    ClosedJaxpr,
    DropVar,
    JaxprInputEffect,
    JaxprLiteral,
    NamedAxisEffect,
    Primitive,
    Tracer,
    as_function,
    close_jaxpr,
    constvars_as_inputs,
    equations_inside,
    initial_state,
    inlining,
    is_closed,
    is_jaxpr,
    literal_behind,
    new_eqn,
    new_jaxpr,
    new_var,
    scan_sizes,
    split_jaxpr,
    sub_jaxprs_of,
    var_behind,
)
from untrace.jaxapi.kernel_calls import KERNEL_HOME as KERNEL_HOME
from untrace.jaxapi.kernel_calls import WHEN_HOME as WHEN_HOME
from untrace.jaxapi.kernel_calls import index_map as index_map
from untrace.jaxapi.kernel_calls import index_maps as index_maps
from untrace.jaxapi.kernels import (
    divided_cost,
    is_default_memory,
    is_on_device,
    is_tensor_core_mesh,
    memory_home,
    tensor_cores,
    unflatten_index,
    unflatten_operands,
)
from untrace.jaxapi.kernels import (
    with_kernel_names as with_kernel_names,
)
from untrace.jaxapi.libraries import library_of as library_of
from untrace.jaxapi.libraries import operand_names as operand_names
from untrace.jaxapi.library_batching import Batches as Batches
from untrace.jaxapi.library_batching import LibraryRule as LibraryRule
from untrace.jaxapi.library_batching import batched as batched
from untrace.jaxapi.library_batching import batches_key as batches_key
from untrace.jaxapi.library_batching import noting_batches as noting_batches
from untrace.jaxapi.linear_solves import LinearSolve
from untrace.jaxapi.losses import loss_of as loss_of
from untrace.jaxapi.made import converted as converted
from untrace.jaxapi.made import inner_partial as inner_partial
from untrace.jaxapi.made import is_converted as is_converted
from untrace.jaxapi.made import is_linearized as is_linearized
from untrace.jaxapi.made import is_made as is_made
from untrace.jaxapi.made import plain_map as plain_map
from untrace.jaxapi.matrices import sparse_settings as sparse_settings
from untrace.jaxapi.module_types import CodePlace as CodePlace
from untrace.jaxapi.params import (
    FLAT_PYTREES,
    FLAT_TREES,
    NATIVE_ENUMS,
    POLICY_RECORDS,
    Device,
    FrozenDict,
    HiPrimitive,
    PyTreeDef,
    SymbolicDim,
    WrappedFun,
    boxed_value,
    flat_tree_sizes,
    is_empty_manual_axis_type,
    is_value_box,
    list_devices,
    make_mesh,
    node_parts,
    plain_attribute,
)
from untrace.jaxapi.placing import code_at as code_at
from untrace.jaxapi.placing import text_line as text_line
from untrace.jaxapi.placing import traceback_of as traceback_of
from untrace.jaxapi.placing import with_traceback as with_traceback
from untrace.jaxapi.primitives import EVAL_JAXPR as EVAL_JAXPR
from untrace.jaxapi.primitives import own_primitives as own_primitives
from untrace.jaxapi.primitives import primitive_name as primitive_name
from untrace.jaxapi.process import (
    ThreadFilter,
    deep_recursion,
    paused_collection,
    rare_collection,
)
from untrace.jaxapi.raveling import HashablePartial, raveled_tree
from untrace.jaxapi.recording import call_readers as call_readers
from untrace.jaxapi.recording import is_debugging as is_debugging
from untrace.jaxapi.recording import is_inside_jax as is_inside_jax
from untrace.jaxapi.recording import is_tree_function as is_tree_function
from untrace.jaxapi.recording import runs_jax_alone as runs_jax_alone
from untrace.jaxapi.recording import use_trace_caches as use_trace_caches
from untrace.jaxapi.recording import without_method_defaults as without_method_defaults
from untrace.jaxapi.recording import without_trace_caches as without_trace_caches
from untrace.jaxapi.replaced import exchanged_names as exchanged_names
from untrace.jaxapi.replaced import is_own_name as is_own_name
from untrace.jaxapi.replaced import replaced_functions as replaced_functions
from untrace.jaxapi.roots import RootParts, root_parts
from untrace.jaxapi.rule_cases import Case as RuleCase
from untrace.jaxapi.rule_cases import (
    RuleCases,
    are_all_cases,
    rule_cases,
    told_cases,
)
from untrace.jaxapi.rule_cases import bound_forward_rule as bound_forward_rule
from untrace.jaxapi.rule_cases import choices as tangent_choices
from untrace.jaxapi.rule_cases import choices_asked_for as choices_asked_for
from untrace.jaxapi.rule_cases import codes_behind as codes_behind
from untrace.jaxapi.rules import (
    MAX_RULE_REPEATS,
    CustomVJPBackward,
    CustomVJPForward,
    asked_rule,
    asking,
    custom_jvp_rule,
    custom_vjp_backward,
    custom_vjp_forward,
    first_call,
    follows_rules,
    is_perturbable,
    lost_capture,
    without_known_residuals,
)
from untrace.jaxapi.settings import MANAGERS as MANAGERS
from untrace.jaxapi.settings import SETTINGS as SETTINGS
from untrace.jaxapi.settings import STRICTER as STRICTER
from untrace.jaxapi.settings import Setting as Setting
from untrace.jaxapi.settings import current_setting as current_setting
from untrace.jaxapi.settings import default_settings as default_settings
from untrace.jaxapi.settings import noting_scopes as noting_scopes
from untrace.jaxapi.settings import set_managers as set_managers
from untrace.jaxapi.sharding import (
    ambient_mesh,
    devices_of,
    formats,
    has_mesh,
    is_abstract_mesh,
    is_over,
    is_over_nothing,
    is_simulated,
    is_typed_by_axes,
    is_unspecified,
    legacy_mesh,
    mesh_of,
    n_devices,
    placement,
    with_mesh,
)
from untrace.jaxapi.state import LEAVES_MARK as LEAVES_MARK
from untrace.jaxapi.state import (
    CheckedErrors,
    FlatCallback,
    HostCall,
    NDIndexer,
    Ref,
    RefSlice,
    accepts_print_format,
    checked_errors,
    failed_check,
    function_origin,
    host_call,
    is_ordered_effect,
    is_ref,
    is_ref_aval,
    ref_content,
    ref_transforms,
    stand_in_for,
    taking_leaves,
)
from untrace.jaxapi.state import leaves_stand_in as leaves_stand_in
from untrace.jaxapi.state import leaves_stand_in_for as leaves_stand_in_for
from untrace.jaxapi.thunks import thunk_result as thunk_result
from untrace.jaxapi.tracers import is_differentiated, is_same_value
from untrace.jaxapi.tracing import (
    global_x64,
    is_traced,
    is_wide,
    jax_version,
    jaxlib_version,
    static_arguments,
    trace_computation,
    trace_flat,
)
from untrace.jaxapi.tracing import told_to_jit as told_to_jit
from untrace.jaxapi.tracing import trace_named as trace_named
from untrace.jaxapi.tracing import unclamped_switch as unclamped_switch
from untrace.jaxapi.tracing import wide_enough as wide_enough
from untrace.jaxapi.trusted import TRACE_TOKENS as TRACE_TOKENS
from untrace.jaxapi.trusted import VALUE_TYPES as VALUE_TYPES
from untrace.jaxapi.trusted import derivative_is_of_library as derivative_is_of_library
from untrace.jaxapi.trusted import hides_state as hides_state
from untrace.jaxapi.trusted import is_of_jax as is_of_jax
from untrace.jaxapi.trusted import kept_on as kept_on
from untrace.jaxapi.trusted import memoized_function as memoized_function
from untrace.jaxapi.trusted import read_of_closure as read_of_closure
from untrace.jaxapi.trusted import refuses_derivative as refuses_derivative
from untrace.jaxapi.trusted import whole_fields as whole_fields
from untrace.jaxapi.wrappers import CUSTOM_JVP as CUSTOM_JVP
from untrace.jaxapi.wrappers import CUSTOM_VJP as CUSTOM_VJP
from untrace.jaxapi.wrappers import FUNCTION_RESULTS as FUNCTION_RESULTS
from untrace.jaxapi.wrappers import SCOPE_FILES as SCOPE_FILES
from untrace.jaxapi.wrappers import UFUNC as UFUNC
from untrace.jaxapi.wrappers import Transformed as Transformed
from untrace.jaxapi.wrappers import elementwise_rules as elementwise_rules
from untrace.jaxapi.wrappers import gradient_function as gradient_function
from untrace.jaxapi.wrappers import gradient_has_logs as gradient_has_logs
from untrace.jaxapi.wrappers import held_by_function as held_by_function
from untrace.jaxapi.wrappers import is_wrapper as is_wrapper
from untrace.jaxapi.wrappers import jax_inlines as jax_inlines
from untrace.jaxapi.wrappers import open_boundary as open_boundary
from untrace.jaxapi.wrappers import transformed as transformed
from untrace.jaxapi.wrappers import wrapper_code as wrapper_code

__all__ = [
    "AVAL_FIELDS",
    "COMPUTE_CONTEXT",
    "COMPUTE_ON",
    "CONTEXT_FIELDS",
    "DEFAULT_CONTEXT",
    "FLAT_PYTREES",
    "FLAT_TREES",
    "FLOAT0",
    "JAXPR_TYPES",
    "MAX_RULE_REPEATS",
    "NATIVE_ENUMS",
    "ORIGIN_FIELDS",
    "ORIGIN_TYPES",
    "POLICY_RECORDS",
    "PRNGS",
    "PRNGS_MODULE",
    "CheckedErrors",
    "ClosedJaxpr",
    "CustomVJPBackward",
    "CustomVJPForward",
    "Device",
    "DropVar",
    "Exported",
    "ExtendedDType",
    "FlatCallback",
    "FrozenDict",
    "HashablePartial",
    "HiPrimitive",
    "HostCall",
    "JaxArray",
    "JaxprInputEffect",
    "JaxprLiteral",
    "KeyTy",
    "LinearSolve",
    "NDIndexer",
    "NamedAxisEffect",
    "PRNGImpl",
    "Primitive",
    "PyTreeDef",
    "Ref",
    "RefSlice",
    "RootParts",
    "RuleCase",
    "RuleCases",
    "ShapedArray",
    "SymbolicDim",
    "SymbolicScope",
    "ThreadFilter",
    "Tracer",
    "WrappedFun",
    "accepts_print_format",
    "ambient_context",
    "ambient_mesh",
    "are_all_cases",
    "array_key",
    "as_function",
    "asked_rule",
    "asking",
    "aval_of",
    "boxed_value",
    "checked_errors",
    "close_jaxpr",
    "compute_region",
    "constvars_as_inputs",
    "context_fields",
    "context_mesh",
    "cotangent_type",
    "custom_jvp_rule",
    "custom_vjp_backward",
    "custom_vjp_forward",
    "deep_recursion",
    "default_key_impl",
    "devices_of",
    "divided_cost",
    "dtype_kind",
    "equation_context",
    "equations_inside",
    "exported_call",
    "exported_digest",
    "exported_dimensions",
    "failed_check",
    "first_call",
    "flat_tree_sizes",
    "follows_rules",
    "formats",
    "function_origin",
    "global_x64",
    "has_mesh",
    "host_call",
    "initial_state",
    "inlining",
    "innermost",
    "is_abstract_mesh",
    "is_closed",
    "is_concrete",
    "is_default_memory",
    "is_differentiated",
    "is_eager",
    "is_empty_manual_axis_type",
    "is_jaxpr",
    "is_key",
    "is_key_array",
    "is_number",
    "is_on_device",
    "is_ordered_effect",
    "is_over",
    "is_over_nothing",
    "is_perturbable",
    "is_plain_aval",
    "is_python_scalar",
    "is_ref",
    "is_ref_aval",
    "is_same_value",
    "is_simulated",
    "is_static_dim",
    "is_tensor_core_mesh",
    "is_token",
    "is_traceable",
    "is_traced",
    "is_typed_by_axes",
    "is_unspecified",
    "is_value_box",
    "is_wide",
    "jax_version",
    "jaxlib_version",
    "key_impl_name",
    "legacy_mesh",
    "line_in_file",
    "linear_in",
    "lines_in_file",
    "list_devices",
    "literal_behind",
    "lost_capture",
    "make_mesh",
    "manual_region",
    "memory_home",
    "mesh_of",
    "n_devices",
    "new_eqn",
    "new_jaxpr",
    "new_var",
    "node_parts",
    "outside_traces",
    "paused_collection",
    "placement",
    "plain_attribute",
    "rare_collection",
    "raveled_tree",
    "ref_content",
    "ref_transforms",
    "root_parts",
    "rule_cases",
    "rule_context",
    "rule_identity",
    "same_aval",
    "same_type",
    "scalar_mesh",
    "scan_sizes",
    "scope_constraints",
    "scope_names",
    "short_type",
    "split_jaxpr",
    "stand_in_for",
    "static_arguments",
    "sub_jaxprs_of",
    "taking_leaves",
    "tangent_choices",
    "tensor_cores",
    "told_cases",
    "trace_computation",
    "trace_flat",
    "unflatten_index",
    "unflatten_operands",
    "user_frame",
    "var_behind",
    "with_mesh",
    "without_known_residuals",
]

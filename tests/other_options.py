"""The options of `jax.config` under which a program and its results stay as they are."""

EQUATIONS = frozenset({"check_vma", "remove_size_one_mesh_axis_from_type"})
"""Options that stand in params and contexts of equations, which are compared."""

CHECKS = frozenset(
    {
        *("allow_f16_reductions", "check_static_indices", "check_tracer_leaks"),
        *("debug_infs", "debug_key_reuse", "debug_nans", "disable_bwd_checks"),
        *("disable_vmap_shmap_error", "disallow_mesh_context_manager"),
        *("enable_checks", "legacy_prng_key", "mutable_array_checks", "no_execution"),
        *("no_tracing", "pallas_enable_debug_checks", "pallas_poison_buffers"),
        *("raise_on_ppermute_sort_diff", "thread_guard", "transfer_guard"),
        *("transfer_guard_device_to_device", "transfer_guard_device_to_host"),
        *("transfer_guard_host_to_device", "array_garbage_collection_guard"),
        "experimental_unsafe_xla_runtime_errors",
    }
)
"""Options that make JAX refuse more or less, and change no program that it takes."""

NEITHER = frozenset(
    {
        # where a program runs
        *(
            "backend_target",
            "cuda_visible_devices",
            "default_device",
            "mock_gpu_topology",
        ),
        *("mock_num_gpu_processes", "num_cpu_devices", "oneapi_visible_devices"),
        *("pjrt_client_create_options", "platform_name", "platforms", "xla_backend"),
        *("rocm_visible_devices", "sort_devices_by_process_index"),
        # how it is compiled, to the same function
        *("compiler_enable_remat_pass", "enable_pgle"),
        *(
            "embedded_constants_max_bytes",
            "memory_fitting_effort",
            "memory_fitting_level",
        ),
        *("mosaic_allow_hlo", "mosaic_unzip_debug_locations", "pallas_use_mosaic_gpu"),
        *(
            "pallas_auto_assign_collective_ids",
            "pallas_auto_assign_collective_ids_limit",
        ),
        *("pgle_aggregation_percentile", "pgle_profiling_runs", "refs_to_pins"),
        *(
            "ragged_dot_use_gpu_pallas_triton_lowering",
            "use_cpp_shard_args",
            "use_rgv3",
        ),
        *("ragged_dot_use_ragged_dot_instruction", "use_shardy_partitioner"),
        *("xla_profile_version", "cpu_enable_async_dispatch"),
        # caches, exported files
        *("compilation_cache_check_contents", "compilation_cache_dir"),
        *("compilation_cache_expect_pgle", "compilation_cache_include_metadata_in_key"),
        *("compilation_cache_max_size", "enable_compilation_cache"),
        *("export_calling_convention_version", "export_deserialize_expired_versions"),
        *("export_ignore_forward_compatibility", "persistent_cache_enable_xla_caches"),
        *("persistent_cache_min_compile_time_secs", "serialization_version"),
        *("persistent_cache_min_entry_size_bytes", "raise_persistent_cache_errors"),
        *(
            "remove_custom_partitioning_ptr_from_cache_key",
            "share_binary_between_hosts",
        ),
        *(
            "share_binary_between_hosts_timeout_ms",
            "jax2tf_associative_scan_reductions",
        ),
        "jax2tf_default_native_serialization",
        # several processes
        *(
            "check_proxy_envs",
            "cpu_collectives_implementation",
            "enable_recoverability",
        ),
        *("cpu_get_global_topology_timeout_minutes", "distributed_debug"),
        *("cpu_get_local_topology_timeout_minutes", "enable_preemption_service"),
        *("cross_host_transfer_socket_address", "cross_host_transfer_timeout_seconds"),
        *("cross_host_transfer_transfer_size", "cross_host_transport_addresses"),
        *("distributed_verify_secure_credentials", "force_dcn_cross_host_transfers"),
        *("mtls_ca_file", "mtls_cert_file", "mtls_key_file", "mtls_peer_uri_prefix"),
        # what is said about it
        *("captured_constants_report_frames", "captured_constants_warn_bytes"),
        *(
            "compiler_detailed_logging_min_ops",
            "debug_leaked_clients_on_clear_backends",
        ),
        *("debug_log_modules", "dump_ir_modes", "dump_ir_to", "explain_cache_misses"),
        *("hlo_source_file_canonicalization_regex", "include_debug_info_in_dumps"),
        *("include_full_tracebacks_in_locations", "log_checkpoint_residuals"),
        *("log_compiles", "logging_level", "pallas_verbose_errors", "pprint_use_color"),
        *("send_traceback_to_runtime", "source_url_schema", "traceback_filtering"),
        *("traceback_in_locations_limit", "tracer_error_num_traceback_frames"),
    }
)
"""Options that change neither equations nor results."""

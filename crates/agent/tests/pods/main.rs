//! Pods through the API: an API server in this process, and an agent in another process, which tests can kill. The
//! binary is its own agent and sandbox program, so it has no test harness.

mod client_libraries;
mod cluster;
mod ephemeral_containers;
mod image_pulls;
mod images;
mod limits;
mod logs;
mod namespaces;
mod probes;
mod restarts;
mod static_pods;
mod streams;
mod termination;
mod usage;
mod user_namespaces;
mod volumes;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use cluster::Cluster;

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// Timeout of one test on a busy host.
const TIMEOUT: Duration = Duration::from_secs(240);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = agent::internal_command(&arguments) {
        return code;
    }
    if let Some((cluster::AGENT_SUBCOMMAND, rest)) = arguments.split_first().map(|(a, b)| (a.as_str(), b)) {
        return finish(cluster::run_agent(rest));
    }
    // `cargo test -- --list` and tools that list tests.
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    match testbed::enclose(None) {
        Ok(Some(status)) if status.success() => ExitCode::SUCCESS,
        Ok(Some(_)) => ExitCode::FAILURE,
        Ok(None) => finish(run_all(name_filter(&arguments))),
        Err(error) => {
            eprintln!("skipped: pods: {error}");
            ExitCode::SUCCESS
        }
    }
}

/// Returns the first argument that is not a flag. Flags of the test harness, such as `--show-output`, have no effect
/// here.
fn name_filter(arguments: &[String]) -> Option<&str> {
    arguments
        .iter()
        .map(String::as_str)
        .find(|argument| !argument.starts_with('-'))
}

fn finish(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the tests whose names contain `filter`.
fn run_all(filter: Option<&str>) -> Outcome {
    if !testbed::set_up_enclosure()?.has_own_proc {
        eprintln!("skipped: pods: this host forbids to mount /proc, which every Pod needs");
        return Ok(());
    }
    agent::network::prepare_node();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut cluster = Cluster::start().await?;
        macro_rules! run {
            ($($module:ident::$name:ident),* $(,)?) => {$(
                let name = concat!(stringify!($module), "::", stringify!($name));
                if filter.is_none_or(|filter| name.contains(filter)) {
                    match tokio::time::timeout(TIMEOUT, $module::$name(&mut cluster)).await {
                        Ok(Ok(())) => println!("test {name} ... ok"),
                        Ok(Err(error)) => return Err(format!("{name}: {error}\n{}", cluster.log_end()).into()),
                        Err(_) => return Err(format!("{name}: not done within {TIMEOUT:?}\n{}", cluster.log_end()).into()),
                    }
                }
            )*};
        }
        run!(
            probes::readiness_follows_its_probe,
            probes::failed_liveness_probe_restarts_the_container,
            probes::network_probes_reach_the_pod,
            termination::pre_stop_precedes_sigterm,
            termination::sidecars_start_first_and_terminate_last,
            termination::completed_pod_keeps_its_phase,
            termination::pod_fails_at_its_deadline,
            termination::termination_messages_are_reported,
            restarts::pods_survive_a_killed_agent,
            restarts::pods_restart_after_a_reboot,
            limits::exceeding_memory_kills_the_container,
            limits::fork_bomb_is_contained,
            usage::containers_and_nodes_are_measured,
            limits::exceeding_the_disk_limit_evicts_the_pod,
            logs::api_server_returns_logs,
            logs::following_ends_with_the_container,
            logs::rejects_clients_without_certificate,
            streams::commands_have_streams_and_exit_codes,
            streams::input_passes_through_to_its_end,
            streams::terminals_have_size_and_name,
            streams::commands_end_with_their_client,
            streams::attached_clients_receive_output,
            streams::containers_read_the_input_of_attached_clients,
            streams::attached_clients_share_the_terminal_of_a_container,
            streams::interactive_pods_run_and_are_removed,
            streams::ports_are_forwarded,
            streams::streams_need_the_right_to_create,
            client_libraries::python_has_streams,
            client_libraries::kube_executes_and_attaches,
            client_libraries::kube_forwards_ports,
            ephemeral_containers::debug_container_joins_a_running_pod,
            ephemeral_containers::debug_container_sees_the_processes_of_its_target,
            ephemeral_containers::kubectl_debug_attaches,
            namespaces::host_ipc_is_that_of_the_node,
            namespaces::host_pid_is_that_of_the_node,
            namespaces::safe_sysctls_apply_to_the_pod,
            volumes::volumes_are_filled_shared_and_refreshed,
            volumes::pod_waits_for_missing_source,
            volumes::security_context_applies,
            volumes::memory_volume_has_its_size_limit,
            volumes::token_is_mounted_by_default,
            images::pod_runs_an_image,
            images::image_pod_survives_a_killed_agent,
            images::image_users_obey_run_as_non_root,
            images::hostile_pod_directory_is_removed,
            image_pulls::failed_pulls_back_off,
            image_pulls::absent_image_is_never_pulled,
            user_namespaces::pods_have_distinct_ids,
            user_namespaces::echo_image_runs_in_a_user_namespace,
            static_pods::overwritten_status_is_repaired,
            static_pods::manifest_controls_its_pod,
            static_pods::manifest_starts_a_pod_without_the_api,
        );
        Ok(())
    })
}

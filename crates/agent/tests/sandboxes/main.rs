//! Sandboxes with real processes in a real network namespace. The binary is its own sandbox program, so it has no test
//! harness.

mod confinement;
mod fixture;
mod hostile_images;
mod image_roots;
mod keyring;
mod lifecycle;
mod user_namespaces;

use std::process::ExitCode;
use std::time::Duration;

use agent::network;
use fixture::Outcome;

/// Timeout of one test on a busy host.
const TIMEOUT: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = agent::internal_command(&arguments) {
        return code;
    }
    if arguments.first().map(String::as_str) == Some(confinement::CALLS_SUBCOMMAND) {
        confinement::attempt_calls();
        return ExitCode::SUCCESS;
    }
    if arguments.first().map(String::as_str) == Some(confinement::WATCH_SUBCOMMAND) {
        confinement::watch_starts();
        return ExitCode::SUCCESS;
    }
    if arguments.first().map(String::as_str) == Some(keyring::SEARCH_SUBCOMMAND) {
        keyring::search_key();
        return ExitCode::SUCCESS;
    }
    // `cargo test -- --list` and tools that list tests.
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    match testbed::enclose(None) {
        Ok(Some(status)) if status.success() => ExitCode::SUCCESS,
        Ok(Some(_)) => ExitCode::FAILURE,
        Ok(None) => match run_all() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("FAILED: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("skipped: sandboxes: {error}");
            ExitCode::SUCCESS
        }
    }
}

/// Runs each test in its turn.
macro_rules! run {
    ($($module:ident::$name:ident($($argument:expr),*)),* $(,)?) => {{$(
        let name = concat!(stringify!($module), "::", stringify!($name));
        run(name, $module::$name($($argument),*)).await?;
    )*}};
}

/// Prints that tests are skipped.
macro_rules! skip {
    ($reason:expr; $($module:ident::$name:ident),* $(,)?) => {{
        let reason = $reason;
        $(println!("skipped: {}::{}: {reason}", stringify!($module), stringify!($name));)*
    }};
}

fn run_all() -> Outcome {
    if !testbed::set_up_enclosure()?.has_own_proc {
        eprintln!("skipped: sandboxes: this host forbids to mount /proc, which every Pod needs");
        return Ok(());
    }
    network::prepare_node();
    // The threads of the runtime inherit the keyring and the group.
    let has_key = keyring::add_key();
    let has_group = confinement::join_group();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        run!(
            lifecycle::echo_responds_from_its_own_namespace(),
            lifecycle::exits_are_reported_and_names_are_reusable(),
            lifecycle::commands_see_the_namespaces_of_the_pod(),
            lifecycle::second_agent_adopts_the_sandbox(),
            confinement::node_credentials_are_hidden(),
            confinement::node_files_and_devices_are_protected(),
            confinement::control_groups_of_the_node_are_hidden(),
            confinement::system_calls_are_filtered(),
            confinement::starting_processes_cannot_be_read(),
            confinement::privileged_container_can_change_the_node(),
            confinement::working_directory_reaches_no_agent_file(),
            confinement::nested_mount_points_follow_no_symbolic_link(),
            confinement::mount_paths_reach_no_file_of_the_node(),
        );
        if has_key {
            run!(keyring::keys_of_the_agent_are_not_inherited());
        } else {
            skip!("this host forbids to add keys"; keyring::keys_of_the_agent_are_not_inherited);
        }
        if has_group {
            run!(confinement::groups_of_the_agent_are_not_inherited());
        } else {
            skip!("this host forbids to join groups"; confinement::groups_of_the_agent_are_not_inherited);
        }
        match testbed::static_shell() {
            Ok(shell) => run!(
                image_roots::root_is_the_image(&shell),
                image_roots::writable_layer_is_fresh_in_each_run(&shell),
                image_roots::read_only_root_has_writable_volumes(&shell),
                image_roots::users_come_from_the_image(&shell),
                image_roots::processes_of_other_containers_are_hidden(&shell),
                image_roots::files_have_the_ids_of_the_pod(&shell),
                hostile_images::links_stay_inside_the_root(&shell),
                hostile_images::rejects_roots_without_directories_for_the_kernel(&shell),
                hostile_images::rejects_oversized_and_blocking_user_files(&shell),
            ),
            Err(cause) => skip!(
                cause;
                image_roots::root_is_the_image,
                image_roots::writable_layer_is_fresh_in_each_run,
                image_roots::read_only_root_has_writable_volumes,
                image_roots::users_come_from_the_image,
                image_roots::processes_of_other_containers_are_hidden,
                image_roots::files_have_the_ids_of_the_pod,
                hostile_images::links_stay_inside_the_root,
                hostile_images::rejects_roots_without_directories_for_the_kernel,
                hostile_images::rejects_oversized_and_blocking_user_files,
            ),
        }
        match user_namespaces::allocate() {
            Some(range) => run!(
                user_namespaces::root_is_unprivileged_on_the_node(range),
                user_namespaces::capabilities_apply_in_the_pod_only(range),
                user_namespaces::volumes_keep_their_owners(range),
                user_namespaces::rejects_file_systems_without_id_mapped_mounts(range),
            ),
            None => skip!(
                user_namespaces::TOO_FEW_IDS;
                user_namespaces::root_is_unprivileged_on_the_node,
                user_namespaces::capabilities_apply_in_the_pod_only,
                user_namespaces::volumes_keep_their_owners,
                user_namespaces::rejects_file_systems_without_id_mapped_mounts,
            ),
        }
        run!(lifecycle::kill_leaves_nothing_behind());
        Ok(())
    })
}

async fn run(name: &str, test: impl Future<Output = Outcome>) -> Outcome {
    match tokio::time::timeout(TIMEOUT, test).await {
        Ok(Ok(())) => {
            println!("test {name} ... ok");
            Ok(())
        }
        Ok(Err(error)) => Err(format!("{name}: {error}").into()),
        Err(_) => Err(format!("{name}: not done within {TIMEOUT:?}").into()),
    }
}

//! `portolan`: everything behind `kind: Service`, in one binary.

mod cli;
mod commands;
mod flags;
mod logging;
mod memory;
mod playground;
mod rlimit;
mod signal;

use std::process::ExitCode;

/// The exit code for flags that cannot be used.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    memory::bound();
    // Sandboxes and the echo program are this program under hidden names, without threads and logs.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = agent::internal_command(&arguments) {
        return code;
    }
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    logging::start(&cli.log);
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("portolan: {error:#}");
            match error.is::<flags::BadValue>() {
                true => ExitCode::from(EXIT_USAGE),
                false => ExitCode::FAILURE,
            }
        }
    }
}

//! Runs the controllers against the cluster of a kubeconfig until Ctrl-C: `cargo run -p controllers --example
//! run -- KUBECONFIG [CONTROLLERS]`, with CONTROLLERS as for `--controllers`.

use std::error::Error;
use std::path::Path;

use client::{Client, Config};
use controllers::{Environment, Options, Selection, run};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kubeconfig = arguments.next().ok_or("the first argument is a kubeconfig")?;
    let controllers = arguments.next().unwrap_or_else(|| "*".to_owned());
    let words: Vec<&str> = controllers.split(',').collect();
    let options = Options {
        controllers: Selection::parse(&words)?,
        ..Options::default()
    };
    let client = Client::new(Config::from_kubeconfig(Path::new(&kubeconfig))?)?;
    let interrupted = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            eprintln!("handler of Ctrl-C not installed: {error}");
        }
    };
    run(Environment::new(client), options, interrupted).await;
    Ok(())
}

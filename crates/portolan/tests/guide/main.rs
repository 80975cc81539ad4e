//! Runs the guides in `docs/` as printed: each command on its machine, and compares the output with the page.

#[path = "../support/machine.rs"]
mod machine;
mod page;

use std::os::unix::process::CommandExt;
use std::process::Command;

use machine::Machine;
use page::{Block, blocks};
use testbed::{Cluster, Topology, in_namespace};

/// A user without any rights, on every machine.
const NOBODY: u32 = 65_534;
/// Directory of the pages.
const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
/// Page of the guides for machines without Kubernetes.
const STANDALONE: &str = "standalone.md";
/// Page of the guide for load-balancer addresses.
const LOAD_BALANCER: &str = "load-balancer/tutorial.md";

#[test]
fn the_guide_on_one_machine() {
    in_namespace(|| follow(STANDALONE, "one-machine", 1));
}

#[test]
fn the_guide_on_two_machines() {
    in_namespace(|| follow(STANDALONE, "two-machines", 2));
}

/// Whoever runs the tests as root sees by this what an ordinary user would.
#[test]
fn the_guide_on_one_machine_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return println!(
            "skipped: the_guide_on_one_machine_as_an_ordinary_user: the other tests do that already"
        );
    }
    let output = Command::new("/proc/self/exe")
        .args(["--exact", "the_guide_on_one_machine", "--nocapture"])
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("this program");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{}", said.concat());
    if let Some(line) = said.concat().lines().find(|line| line.starts_with("skipped: ")) {
        println!("skipped: the_guide_on_one_machine_as_an_ordinary_user: {line}");
    }
}

#[test]
fn the_tutorial_on_connecting_applications() {
    in_namespace(|| follow(STANDALONE, "tutorial", 1));
}

#[test]
fn the_tutorial_on_load_balancer_addresses() {
    in_namespace(|| follow(LOAD_BALANCER, "load-balancer", 1));
}

/// Follows a guide of a page on machines of its own.
fn follow(page: &str, guide: &str, machines: usize) {
    machine::need_programs();
    let text = std::fs::read_to_string(format!("{PAGES}/{page}")).expect("the page");
    let blocks = blocks(&text, guide);
    assert!(!blocks.is_empty(), "docs/{page} has no guide {guide}");
    let cluster = Cluster::start(Topology::with_nodes(machines).expect("a topology")).expect("machines");
    let mut running = Machine::all(&cluster);
    for block in &blocks {
        let Some(machine) = running.get_mut(block.machine) else {
            panic!("line {}: there is no machine {}", block.line, block.machine + 1);
        };
        let printed = run(machine, page, block);
        if let Some(name) = &block.name {
            for machine in &mut running {
                machine.must(&format!("{name}='{printed}'"));
            }
        }
    }
    for machine in &mut running {
        machine.end();
    }
}

/// Runs a block, and compares what it prints, which it returns.
fn run(machine: &mut Machine, page: &str, block: &Block) -> String {
    let printed = machine.must(&block.commands);
    if let Some(expected) = &block.prints {
        assert!(
            page::is_like(&printed, expected),
            "docs/{page}, line {}:\n{}\nis to print:\n{expected}\nand printed:\n{printed}\n{}",
            block.line,
            block.commands,
            machine.log_end()
        );
    }
    printed
}

//! The guides of `docs/standalone.md`, run as they stand there: each command in its place, and what the page says that
//! it prints. So the page cannot rot.

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
/// The page.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/standalone.md");

#[test]
fn the_guide_on_one_machine() {
    in_namespace(|| follow("one-machine", 1));
}

#[test]
fn the_guide_on_two_machines() {
    in_namespace(|| follow("two-machines", 2));
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
    in_namespace(|| follow("tutorial", 1));
}

/// Follows a guide of the page on machines of its own.
fn follow(guide: &str, machines: usize) {
    machine::need_programs();
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let blocks = blocks(&page, guide);
    assert!(!blocks.is_empty(), "the page has no guide {guide}");
    let cluster = Cluster::start(Topology::with_nodes(machines).expect("a topology")).expect("machines");
    let mut running = Machine::all(&cluster);
    for block in &blocks {
        let Some(machine) = running.get_mut(block.machine) else {
            panic!("line {}: there is no machine {}", block.line, block.machine + 1);
        };
        let printed = run(machine, block);
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
fn run(machine: &mut Machine, block: &Block) -> String {
    let printed = machine.must(&block.commands);
    if let Some(expected) = &block.prints {
        assert!(
            page::is_like(&printed, expected),
            "docs/standalone.md, line {}:\n{}\nis to print:\n{expected}\nand printed:\n{printed}\n{}",
            block.line,
            block.commands,
            machine.log_end()
        );
    }
    printed
}

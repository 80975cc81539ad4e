//! Rules of iptables, in both variants.

mod saved;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use explain::observation::{ForwardChain, Iptables};
use netlink::nftables::{Inventory, InventoryTable};

use super::gap::{Gaps, ReadFailure};
use super::sysctls::read_text;
use super::tables::SERVICES_CHAIN;
use saved::SavedTables;

/// Maximum number of bytes of the output of a program: 100,000 rules.
const OUTPUT_BYTES_MAX: u64 = 32 << 20;
/// Maximum run time of a program.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two checks of a running program.
const EXIT_CHECK_PERIOD: Duration = Duration::from_millis(5);
/// Tables of iptables.
const TABLES: [&str; 5] = ["filter", "nat", "mangle", "raw", "security"];

/// An IP family, with the names that the kernel and the programs have for it.
struct Family {
    name: &'static str,
    nft: &'static str,
    program: &'static str,
    /// File with the names of the tables of iptables-legacy.
    legacy_tables: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "IPv4",
        nft: "ip",
        program: "iptables",
        legacy_tables: "/proc/thread-self/net/ip_tables_names",
    },
    Family {
        name: "IPv6",
        nft: "ip6",
        program: "ip6tables",
        legacy_tables: "/proc/thread-self/net/ip6_tables_names",
    },
];

/// Rules of iptables, with the parts that show firewall programs.
#[derive(Clone, Debug, Default)]
pub(super) struct IptablesState {
    /// The observation.
    pub observed: Iptables,
    /// Names of the chains of the tables `filter`.
    pub filter_chains: BTreeSet<String>,
    /// Policies of the chains `INPUT` for IPv4.
    pub input_policies: Vec<String>,
}

/// Reads the rules. Programs run only if the kernel has tables of their variant, because the program of iptables-legacy
/// creates tables that it lists.
pub(super) fn read(inventory: Option<&Inventory>, gaps: &mut Gaps) -> IptablesState {
    let mut state = IptablesState {
        observed: Iptables {
            legacy_rules: Some(0),
            nft_rules: inventory.map(|_| 0),
            services: Some(Vec::new()),
            forward: Some(Vec::new()),
        },
        ..IptablesState::default()
    };
    for family in &FAMILIES {
        match read_legacy_tables(family) {
            Ok(saved) => state.add_legacy(family, saved),
            Err(failure) => {
                gaps.take::<()>("iptables", Err(failure));
                state.observed.legacy_rules = None;
                state.observed.services = None;
            }
        }
        if let Some(inventory) = inventory {
            state.add_nft(family, inventory);
        }
    }
    if inventory.is_none() {
        state.observed.services = None;
        state.observed.forward = None;
    }
    state
}

impl IptablesState {
    fn add_legacy(&mut self, family: &Family, saved: Option<SavedTables>) {
        let Some(saved) = saved else { return };
        if let Some(rules) = &mut self.observed.legacy_rules {
            *rules += saved.rules;
        }
        if saved.has_services {
            self.add_services_variant("legacy");
        }
        if let Some(policy) = saved.policies.get("FORWARD") {
            self.add_forward(ForwardChain {
                variant: "legacy".to_owned(),
                family: family.name.to_owned(),
                policy: policy.clone(),
                rules: Some(saved.forward),
            });
        }
        self.add_input(family, saved.policies.get("INPUT"));
        self.filter_chains.extend(saved.filter_chains);
    }

    /// Adds the tables of iptables-nft. The program adds the matches of their rules.
    fn add_nft(&mut self, family: &Family, inventory: &Inventory) {
        let is_own =
            |table: &&InventoryTable| table.family == family.nft && TABLES.contains(&table.name.as_str());
        let tables: Vec<&InventoryTable> = inventory.tables.iter().filter(is_own).collect();
        let chains = tables.iter().flat_map(|table| &table.chains);
        if let Some(rules) = &mut self.observed.nft_rules {
            *rules += chains.map(|chain| chain.rules).sum::<u64>();
        }
        let has_services = |table: &&&InventoryTable| {
            table.name == "nat" && table.chains.iter().any(|chain| chain.name == SERVICES_CHAIN)
        };
        if tables.iter().any(|table| has_services(&table)) {
            self.add_services_variant("nft");
        }
        let Some(filter) = tables.iter().find(|table| table.name == "filter") else {
            return;
        };
        self.filter_chains
            .extend(filter.chains.iter().map(|chain| chain.name.clone()));
        let policy = |name: &str| {
            let chain = filter.chains.iter().find(|chain| chain.name == name);
            let accepts = chain.and_then(|chain| chain.accepts);
            accepts.map(|accepts| if accepts { "ACCEPT" } else { "DROP" }.to_owned())
        };
        self.add_input(family, policy("INPUT").as_ref());
        if let Some(policy) = policy("FORWARD") {
            let program = format!("{}-nft-save", family.program);
            let text = run(&program, &["-t", "filter"]).ok();
            self.add_forward(ForwardChain {
                variant: "nft".to_owned(),
                family: family.name.to_owned(),
                policy,
                rules: text.map(|text| saved::parse(&text, SERVICES_CHAIN).forward),
            });
        }
    }

    fn add_services_variant(&mut self, variant: &str) {
        let services = self.observed.services.get_or_insert_default();
        if services.iter().all(|known| known != variant) {
            services.push(variant.to_owned());
        }
    }

    fn add_forward(&mut self, chain: ForwardChain) {
        self.observed.forward.get_or_insert_default().push(chain);
    }

    fn add_input(&mut self, family: &Family, policy: Option<&String>) {
        if family.nft == "ip" {
            self.input_policies.extend(policy.cloned());
        }
    }
}

/// Reads the tables of iptables-legacy; `None` if the kernel has none.
fn read_legacy_tables(family: &Family) -> Result<Option<SavedTables>, ReadFailure> {
    let path = Path::new(family.legacy_tables);
    let is_empty = match std::fs::File::open(path) {
        Ok(_) => read_text(path).is_none_or(|text| text.is_empty()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(error.into()),
    };
    if is_empty {
        return Ok(None);
    }
    let text = run(&format!("{}-legacy-save", family.program), &[])?;
    Ok(Some(saved::parse(&text, SERVICES_CHAIN)))
}

/// Runs a program and returns its output.
fn run(program: &str, arguments: &[&str]) -> Result<String, ReadFailure> {
    let failed = |reason: &dyn std::fmt::Display| ReadFailure::Other(format!("{program}: {reason}"));
    let child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| failed(&error))?;
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut text)?;
        }
        Ok::<_, std::io::Error>(text)
    });
    let is_success = wait(&mut child).map_err(|error| failed(&error))?;
    let text = match reader.join() {
        Ok(text) => text.map_err(|error| failed(&error))?,
        Err(_) => return Err(failed(&"its output was not read")),
    };
    if !is_success {
        return Err(failed(&"it failed"));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Waits for a program and returns true if it succeeds. It is killed after [`PROGRAM_TIMEOUT`].
fn wait(child: &mut Child) -> std::io::Result<bool> {
    let start = Instant::now();
    while start.elapsed() < PROGRAM_TIMEOUT {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(EXIT_CHECK_PERIOD);
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

#[cfg(test)]
mod tests;

//! `portolan image`: the container images of this host.

mod load;
mod progress;
mod pull;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use images::{DiskThresholds, Image, ImageStore, ImageSummary, PruneReport, Reference, StoreSettings};
use serde_json::json;

use crate::error::{CommandError, UsageError};
use crate::flags::values::DATA_DIRECTORY;
use crate::output::{self, Format};

/// Directory of the images in the data directory.
const IMAGES_DIRECTORY: &str = "images";
/// Directory with the configuration of registries and mirrors.
const HOSTS_DIRECTORY: &str = "/etc/portolan/certs.d";
/// Heading of the flags about the store.
const STORE_FLAGS: &str = "Store";
/// Heading of the flags about registries.
const REGISTRY_FLAGS: &str = "Registry";
/// Hexadecimal digits of an image ID in a table, as Docker prints them.
const SHORT_ID_DIGITS: usize = 12;

/// Subcommands of `portolan image`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Pull images from their registries, or from mirrors
    Pull(pull::Flags),
    /// Load images from an archive of `docker save`, an OCI archive or an OCI layout directory
    Load(load::Flags),
    /// List images
    List(ListFlags),
    /// Remove names of images, and the layers that no other image needs
    Remove(RemoveFlags),
    /// Remove the images that no container uses
    Prune(PruneFlags),
}

/// Store of the images.
#[derive(Debug, Args)]
#[command(next_help_heading = STORE_FLAGS)]
struct StoreFlags {
    /// Data directory of `portolan up` or `portolan join`
    #[arg(long, default_value = DATA_DIRECTORY, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Flags of `portolan image list`.
#[derive(Debug, Args)]
pub(crate) struct ListFlags {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    store: StoreFlags,
}

/// Flags of `portolan image remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveFlags {
    /// Names of images
    #[arg(required = true, value_name = "NAME")]
    names: Vec<Reference>,
    #[command(flatten)]
    store: StoreFlags,
}

/// Flags of `portolan image prune`.
#[derive(Debug, Args)]
pub(crate) struct PruneFlags {
    /// Remove images only if this percentage of the disk is used, the least recently used ones first
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    disk_high_percent: Option<u8>,
    /// End the removal at this percentage [default: 5 below --disk-high-percent]
    #[arg(long, requires = "disk_high_percent", value_name = "PERCENT",
        value_parser = clap::value_parser!(u8).range(0..=99))]
    disk_low_percent: Option<u8>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs a subcommand.
///
/// # Errors
///
/// An error if a flag is invalid, or the store, an archive or a registry fails.
pub(crate) fn run(command: &Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Pull(flags) => pull::run(flags)?,
        Command::Load(flags) => load::run(flags)?,
        Command::List(flags) => list(flags)?,
        Command::Remove(flags) => remove(flags)?,
        Command::Prune(flags) => prune(flags)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl StoreFlags {
    fn open(&self, settings: StoreSettings) -> Result<ImageStore, CommandError> {
        Ok(ImageStore::open(&self.data_dir.join(IMAGES_DIRECTORY), settings)?)
    }
}

fn list(flags: &ListFlags) -> Result<(), CommandError> {
    let images = flags.store.open(StoreSettings::default())?.list()?;
    flags
        .output
        .print(&json!({ "images": images }), || table(&images, SystemTime::now()));
    Ok(())
}

fn remove(flags: &RemoveFlags) -> Result<(), CommandError> {
    let store = flags.store.open(StoreSettings::default())?;
    for name in &flags.names {
        store.remove(name)?;
        output::print(&format!("{name} removed\n"));
    }
    Ok(())
}

fn prune(flags: &PruneFlags) -> Result<(), CommandError> {
    /// Difference between the thresholds, as the kubelet's defaults have it.
    const THRESHOLD_DIFFERENCE_PERCENT: u8 = 5;
    let thresholds = flags.disk_high_percent.map(|high_percent| DiskThresholds {
        high_percent,
        low_percent: flags
            .disk_low_percent
            .unwrap_or(high_percent.saturating_sub(THRESHOLD_DIFFERENCE_PERCENT)),
    });
    if let Some(thresholds) = thresholds
        && thresholds.low_percent >= thresholds.high_percent
    {
        return Err(UsageError::new("--disk-low-percent must be below --disk-high-percent").into());
    }
    let store = flags.store.open(StoreSettings::default())?;
    let in_use = BTreeSet::new();
    let report = match thresholds {
        Some(thresholds) => store.prune_for_disk(&in_use, thresholds)?,
        None => store.prune(&in_use)?,
    };
    flags.output.print(&json!(report), || prune_text(&report));
    Ok(())
}

/// Prints the names of stored images.
fn print_stored(images: &[Image], format: Format, verb: &str) {
    let names = images.iter().map(|image| {
        json!({"reference": image.reference, "id": image.id, "digest": image.digest, "sizeBytes": image.size_bytes})
    });
    format.print(&json!({ "images": names.collect::<Vec<_>>() }), || {
        let line = |image: &Image| format!("{} {verb} ({})\n", image.reference, image.digest);
        images.iter().map(line).collect()
    });
}

fn table(images: &[ImageSummary], now: SystemTime) -> String {
    let header = ["NAME", "IMAGE ID", "SIZE", "LAST USED", "IN USE BY"].map(str::to_owned);
    let mut rows = vec![header];
    for image in images {
        let age = now.duration_since(image.last_used).unwrap_or_default();
        rows.push([
            image.reference.to_string(),
            image.id.0.hex().chars().take(SHORT_ID_DIGITS).collect(),
            size(image.size_bytes),
            output::age(age.as_secs()),
            image.holders.join(","),
        ]);
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |row: &[String; 5]| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("   ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn prune_text(report: &PruneReport) -> String {
    let mut text: String = report
        .removed
        .iter()
        .map(|name| format!("{name} removed\n"))
        .collect();
    text.push_str(&format!(
        "{} freed; the disk is used to {} %\n",
        size(report.freed_bytes),
        report.disk_used_percent
    ));
    text
}

/// Formats a number of bytes with a binary prefix.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1_024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().unwrap_or(&"");
    for larger in units {
        if value < 1_024.0 {
            break;
        }
        value /= 1_024.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests;

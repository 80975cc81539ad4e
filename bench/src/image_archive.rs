//! Archive of an image with a static shell and files of random text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use testbed::ImageLayout;

use crate::Failure;

/// Name of the image.
pub(crate) const NAME: &str = "localhost/bench:1.0";
/// Bytes of one file.
const FILE_BYTES: usize = 64 << 10;
/// Number of directories with files.
const DIRECTORIES: usize = 64;

/// Writes the archive of an image with `mebibytes` of files into a new directory, and returns its path.
pub(crate) fn write(directory: &Path, mebibytes: usize) -> Result<PathBuf, Failure> {
    let shell = testbed::static_shell()?;
    let count = (mebibytes << 20) / FILE_BYTES;
    let names: Vec<String> = (0..count)
        .map(|number| format!("srv/{}/{number}", number % DIRECTORIES))
        .collect();
    let contents: Vec<String> = (0..count).map(|_| random_text()).collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(String::as_str)
        .zip(contents.iter().map(String::as_str))
        .collect();
    fs::create_dir_all(directory)?;
    let layout = directory.join("layout");
    let image = ImageLayout {
        name: NAME,
        config: json!({"Env": ["PATH=/bin"], "Cmd": ["sleep", "100000"]}),
        files: &files,
    };
    image.write(&layout, &shell)?;
    let archive = directory.join("image.tar");
    let status = Command::new("tar")
        .arg("-C")
        .arg(&layout)
        .arg("-cf")
        .arg(&archive)
        .args(["oci-layout", "index.json", "blobs"])
        .status()?;
    if !status.success() {
        return Err(format!("tar: {status}").into());
    }
    fs::remove_dir_all(&layout)?;
    Ok(archive)
}

fn random_text() -> String {
    std::iter::repeat_with(fastrand::alphanumeric)
        .take(FILE_BYTES)
        .collect()
}

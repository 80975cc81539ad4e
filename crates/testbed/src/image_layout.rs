//! Image of a static shell as an OCI layout, for tests of containers. It needs no registry.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Static shell with tools, of Debian's package `busybox-static`.
const SHELL: &str = "/bin/busybox";
/// Path of the loader in a dynamic executable.
const LOADER: &[u8] = b"/ld-linu";

/// Returns the path of the shell, or the reason why there is none, for the message of a skipped test.
///
/// # Errors
///
/// The reason.
pub fn static_shell() -> Result<PathBuf, String> {
    let content = fs::read(SHELL).map_err(|error| format!("{SHELL}: {error}; install busybox-static"))?;
    if content.windows(LOADER.len()).any(|window| window == LOADER) {
        return Err(format!("{SHELL} is not static; install busybox-static"));
    }
    Ok(PathBuf::from(SHELL))
}

/// Image to write.
#[derive(Debug)]
pub struct ImageLayout<'a> {
    /// Name with tag.
    pub name: &'a str,
    /// `config` of the image: `Cmd`, `Env`, `User` and others.
    pub config: Value,
    /// Files with their content, in addition to the shell, its tools and `/etc/passwd`.
    pub files: &'a [(&'a str, &'a str)],
}

impl ImageLayout<'_> {
    /// Writes the layout into a directory, which must not exist.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn write(&self, directory: &Path, shell: &Path) -> io::Result<()> {
        let blobs = directory.join("blobs/sha256");
        fs::create_dir_all(&blobs)?;
        let layer = self.layer(shell)?;
        let layer = write_blob(&blobs, "application/vnd.oci.image.layer.v1.tar", &layer)?;
        let config = json!({
            "architecture": match std::env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                other => other,
            },
            "os": "linux",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        });
        let config = write_blob(
            &blobs,
            "application/vnd.oci.image.config.v1+json",
            &serde_json::to_vec(&config)?,
        )?;
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]});
        let mut manifest = write_blob(&blobs, kind, &serde_json::to_vec(&manifest)?)?;
        manifest["annotations"] = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name,
        });
        let index = json!({"schemaVersion": 2, "manifests": [manifest]});
        fs::write(directory.join("index.json"), serde_json::to_vec(&index)?)?;
        fs::write(
            directory.join("oci-layout"),
            "{\"imageLayoutVersion\": \"1.0.0\"}",
        )
    }

    fn layer(&self, shell: &Path) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut content = Vec::new();
        fs::File::open(shell)?.read_to_end(&mut content)?;
        append(&mut archive, "bin/busybox", &content, 0o755)?;
        let output = std::process::Command::new(shell).arg("--list").output()?;
        for tool in String::from_utf8_lossy(&output.stdout).lines() {
            let mut header = header(tar::EntryType::Symlink, 0, 0o777);
            if tool != "busybox" {
                archive.append_link(&mut header, format!("bin/{tool}"), "busybox")?;
            }
        }
        let passwd = "root:x:0:0::/root:/bin/sh\nweb:x:101:102::/srv:/bin/sh\n";
        append(&mut archive, "etc/passwd", passwd.as_bytes(), 0o644)?;
        append(
            &mut archive,
            "etc/group",
            b"root:x:0:\nweb:x:102:\nlogs:x:103:web\n",
            0o644,
        )?;
        let mut temporary = header(tar::EntryType::Directory, 0, 0o1777);
        archive.append_data(&mut temporary, "tmp/", io::empty())?;
        for (path, content) in self.files {
            append(&mut archive, path, content.as_bytes(), 0o755)?;
        }
        archive.into_inner()
    }
}

fn header(kind: tar::EntryType, size_bytes: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size_bytes);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let mut header = header(tar::EntryType::Regular, content.len() as u64, mode);
    archive.append_data(&mut header, path, content)
}

/// Writes a blob and returns its descriptor.
fn write_blob(blobs: &Path, kind: &str, content: &[u8]) -> io::Result<Value> {
    let hash = Sha256::digest(content);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(blobs.join(&hex), content)?;
    Ok(json!({"mediaType": kind, "digest": format!("sha256:{hex}"), "size": content.len()}))
}

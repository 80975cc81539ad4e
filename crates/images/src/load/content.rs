//! Members of an archive or of a layout directory, by name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::{LoadError, LoadSourceKind};
use crate::digest::{Algorithm, Digest};
use crate::layer::archive::{Archive, EntryKind};
use crate::layer::compression::Decompressed;
use crate::layer::limits::{ARCHIVE_BYTES_MAX, Limits};

/// Maximum number of members of an archive: some 100 layers and documents for each of some 100 images.
const MEMBERS_MAX: usize = 100_000;
/// Maximum number of bytes of the names of all members together.
const MEMBER_NAMES_BYTES_MAX: usize = 16 << 20;
/// Maximum number of links from one member to another that are followed. Docker links each layer once.
const LINKS_MAX: usize = 4;
/// Bytes at the start of an archive that identify its compression.
const MAGIC_BYTES: usize = 4;

/// Members of an archive or directory.
pub(crate) enum Content {
    Archive {
        file: Arc<File>,
        members: BTreeMap<String, Member>,
    },
    Directory(OwnedFd),
}

/// Member of an archive.
pub(crate) enum Member {
    /// Position and bytes of the content.
    File { position: u64, bytes: u64 },
    /// Name of the member with the content. Older versions of Docker store equal layers once.
    Link(String),
}

/// Reader of one member.
pub(crate) enum MemberReader {
    Section {
        file: Arc<File>,
        position: u64,
        end: u64,
    },
    File(File),
}

impl Content {
    /// Opens an archive or directory. A compressed archive or a stream is copied into an unnamed file in `scratch`.
    pub(crate) fn open(source: LoadSourceKind, scratch: &Path) -> Result<Self, LoadError> {
        match source {
            LoadSourceKind::Stream(stream) => Self::of_copy(stream, scratch),
            LoadSourceKind::Path(path) => {
                let at_path = |source| LoadError::Open {
                    path: path.clone(),
                    source,
                };
                let mut file = File::open(&path).map_err(at_path)?;
                let metadata = file.metadata().map_err(at_path)?;
                if metadata.is_dir() {
                    return Ok(Self::Directory(file.into()));
                }
                if !metadata.is_file() || is_compressed(&file).map_err(at_path)? {
                    return Self::of_copy(file, scratch);
                }
                file.seek(SeekFrom::Start(0)).map_err(at_path)?;
                Self::of_file(file)
            }
        }
    }

    /// Returns the reader of a member, or `None` if it is absent.
    pub(crate) fn member(&self, name: &str) -> Result<Option<MemberReader>, LoadError> {
        match self {
            Self::Archive { file, members } => Ok(section(file, members, name)),
            Self::Directory(directory) => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                match rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve) {
                    Ok(opened) => Ok(Some(MemberReader::File(File::from(opened)))),
                    Err(rustix::io::Errno::NOENT) => Ok(None),
                    Err(errno) => Err(LoadError::Open {
                        path: PathBuf::from(name),
                        source: errno.into(),
                    }),
                }
            }
        }
    }

    /// Returns the reader of a member that another one names.
    pub(crate) fn require(&self, name: &str) -> Result<MemberReader, LoadError> {
        self.member(name)?
            .ok_or_else(|| LoadError::Missing(name.to_owned()))
    }

    /// Returns the content of a member of at most `bytes_max`, or `None` if it is absent.
    pub(crate) fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, LoadError> {
        let Some(member) = self.member(name)? else {
            return Ok(None);
        };
        let mut content = Vec::new();
        let read = member.take(bytes_max + 1).read_to_end(&mut content);
        read.map_err(|source| LoadError::Open {
            path: PathBuf::from(name),
            source,
        })?;
        if content.len() as u64 > bytes_max {
            return Err(LoadError::TooLong(name.to_owned()));
        }
        Ok(Some(content))
    }

    /// Returns the verified content of a member whose name is its digest, as in OCI layouts.
    pub(crate) fn read_blob(&self, digest: &Digest, bytes_max: u64) -> Result<Vec<u8>, LoadError> {
        let name = blob_name(digest);
        let content = self.read(&name, bytes_max)?.ok_or(LoadError::Missing(name))?;
        if !digest.matches(&content) {
            return Err(LoadError::Digest {
                expected: Box::new(digest.clone()),
                actual: Box::new(Digest::sha256(&content)),
            });
        }
        Ok(content)
    }

    /// Copies an archive, decompressed, into a file without name, and reads its members.
    fn of_copy(source: impl Read, scratch: &Path) -> Result<Self, LoadError> {
        let at_scratch = |source| LoadError::Open {
            path: scratch.to_owned(),
            source,
        };
        let path = scratch.join(format!("{:016x}", fastrand::u64(..)));
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(at_scratch)?;
        match std::fs::remove_file(&path) {
            // Another process took it for an interrupted download.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(at_scratch)?,
        }
        let limits = Limits {
            archive_bytes: 2 * ARCHIVE_BYTES_MAX,
            ..Limits::default()
        };
        let archive = |error| LoadError::Archive(crate::layer::LayerError::of_read(error));
        let algorithms = (None, Algorithm::Sha256);
        let mut reader = Decompressed::new(source, algorithms, limits, Arc::default()).map_err(archive)?;
        io::copy(&mut reader, &mut file).map_err(archive)?;
        file.seek(SeekFrom::Start(0)).map_err(at_scratch)?;
        Self::of_file(file)
    }

    /// Reads the members of an archive.
    fn of_file(file: File) -> Result<Self, LoadError> {
        let length = file
            .metadata()
            .map_err(|error| LoadError::Archive(crate::layer::LayerError::of_read(error)))?;
        let clone = file.try_clone();
        let clone = clone.map_err(|error| LoadError::Archive(crate::layer::LayerError::of_read(error)))?;
        let mut archive = Archive::new(BufReader::new(clone));
        let (mut members, mut names_bytes) = (BTreeMap::new(), 0);
        while let Some((entry, position)) = archive.next_with_position().map_err(LoadError::Archive)? {
            let Some(name) = member_name(&entry.path) else {
                continue;
            };
            names_bytes += name.len();
            if members.len() == MEMBERS_MAX || names_bytes > MEMBER_NAMES_BYTES_MAX {
                return Err(LoadError::Members(members.len()));
            }
            let member = match entry.kind {
                EntryKind::File if position.saturating_add(entry.size) > length.len() => {
                    return Err(LoadError::Archive(crate::layer::LayerError::Truncated));
                }
                EntryKind::File => Member::File {
                    position,
                    bytes: entry.size,
                },
                EntryKind::SymbolicLink | EntryKind::HardLink => {
                    let Some(target) = link_target(&name, &entry.link, entry.kind) else {
                        continue;
                    };
                    Member::Link(target)
                }
                _ => continue,
            };
            members.insert(name, member);
        }
        Ok(Self::Archive {
            file: Arc::new(file),
            members,
        })
    }
}

impl Read for MemberReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Section { file, position, end } => {
                let rest = usize::try_from(*end - *position).unwrap_or(usize::MAX);
                let requested = rest.min(buffer.len());
                let read = file.read_at(&mut buffer[..requested], *position)?;
                *position += read as u64;
                Ok(read)
            }
        }
    }
}

/// Returns the name of a blob in an OCI layout.
pub(crate) fn blob_name(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm(), digest.hex())
}

fn section(file: &Arc<File>, members: &BTreeMap<String, Member>, name: &str) -> Option<MemberReader> {
    let mut name = name;
    for _ in 0..=LINKS_MAX {
        match members.get(name)? {
            Member::File { position, bytes } => {
                return Some(MemberReader::Section {
                    file: Arc::clone(file),
                    position: *position,
                    end: position + bytes,
                });
            }
            Member::Link(target) => name = target,
        }
    }
    None
}

/// Returns the name of a member without `./` and double slashes. `None` for names that no other member can refer to.
fn member_name(path: &[u8]) -> Option<String> {
    normalized_path(Path::new(std::str::from_utf8(path).ok()?))
}

/// Returns the member that a link leads to. A symbolic link counts from its own directory.
fn link_target(name: &str, target: &[u8], kind: EntryKind) -> Option<String> {
    let target = Path::new(std::str::from_utf8(target).ok()?);
    match (kind, Path::new(name).parent()) {
        (EntryKind::SymbolicLink, Some(parent)) => normalized_path(&parent.join(target)),
        _ => normalized_path(target),
    }
}

fn normalized_path(path: &Path) -> Option<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_str()?),
            Component::ParentDir => drop(names.pop()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!names.is_empty()).then(|| names.join("/"))
}

fn is_compressed(file: &File) -> io::Result<bool> {
    let mut magic = [0; MAGIC_BYTES];
    let read = file.read_at(&mut magic, 0)?;
    Ok(crate::layer::compression::is_compressed(&magic[..read]))
}

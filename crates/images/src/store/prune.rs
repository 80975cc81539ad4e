//! Removal of images that nothing uses, and of parts that no image needs.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::disk::{delete_file, names, used_percent};
use super::lock::LockedFile;
use super::{ImageStore, NameRecord, StoreError};
use crate::digest::Digest;
use crate::image::ImageId;
use crate::reference::Reference;

/// Age of an interrupted download that a later pull does not continue. Its layer may be obsolete by then.
const DOWNLOAD_AGE_MAX: Duration = Duration::from_secs(86_400);

/// Disk usage at which images are removed, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskThresholds {
    /// Nothing is removed below this usage.
    pub high_percent: u8,
    /// Images are removed until the usage is not above this one.
    pub low_percent: u8,
}

impl Default for DiskThresholds {
    /// Returns the defaults of the kubelet.
    fn default() -> Self {
        Self {
            high_percent: 85,
            low_percent: 80,
        }
    }
}

/// Result of a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneReport {
    /// Names of removed images.
    pub removed: Vec<Reference>,
    /// Bytes of the files of removed layers.
    pub freed_bytes: u64,
    /// Usage of the disk afterwards, in percent.
    pub disk_used_percent: u8,
}

impl ImageStore {
    /// Removes all images except those in `in_use` and those that a program protects, and interrupted downloads.
    ///
    /// # Errors
    /// [`StoreError::File`] and [`StoreError::Damaged`] for the files of the store.
    pub fn prune(&self, in_use: &BTreeSet<ImageId>) -> Result<PruneReport, StoreError> {
        let mut report = PruneReport::default();
        let lock = self.lock_exclusive()?;
        for record in self.unused(in_use)? {
            self.delete_name(&record.reference)?;
            report.removed.push(record.reference);
        }
        report.removed.sort();
        report.freed_bytes = self.sweep()?;
        drop(lock);
        self.collect_downloads(Duration::ZERO)?;
        self.empty_trash()?;
        report.disk_used_percent = used_percent(&self.inner.directory)?;
        Ok(report)
    }

    /// Removes images in the order of their last use while the disk is full, as the kubelet does.
    ///
    /// # Errors
    /// [`StoreError::Thresholds`]; [`StoreError::File`] and [`StoreError::Damaged`] for the files of the store.
    pub fn prune_for_disk(
        &self,
        in_use: &BTreeSet<ImageId>,
        thresholds: DiskThresholds,
    ) -> Result<PruneReport, StoreError> {
        let DiskThresholds {
            high_percent: high,
            low_percent: low,
        } = thresholds;
        if low >= high || high > 100 {
            return Err(StoreError::Thresholds { high, low });
        }
        let mut report = PruneReport {
            disk_used_percent: used_percent(&self.inner.directory)?,
            ..PruneReport::default()
        };
        if report.disk_used_percent < high {
            return Ok(report);
        }
        self.collect_downloads(Duration::ZERO)?;
        // Each turn removes one name, so the number of turns is the number of names.
        loop {
            let lock = self.lock_exclusive()?;
            report.freed_bytes += self.sweep()?;
            let oldest = self.unused(in_use)?.into_iter().next();
            drop(lock);
            self.empty_trash()?;
            report.disk_used_percent = used_percent(&self.inner.directory)?;
            let Some(record) = oldest.filter(|_| report.disk_used_percent > low) else {
                return Ok(report);
            };
            let _lock = self.lock_exclusive()?;
            // A program may have begun to use the image.
            if self.unused(in_use)?.contains(&record) {
                self.delete_name(&record.reference)?;
                report.removed.push(record.reference);
            }
        }
    }

    /// Deletes the files of processes that exited during a pull, load or removal.
    pub(super) fn collect_leftovers(&self) -> Result<(), StoreError> {
        self.collect_unpacking()?;
        self.collect_downloads(DOWNLOAD_AGE_MAX)?;
        self.empty_trash()
    }

    /// Deletes parts that no name, program or pull needs. Returns the bytes of deleted layers.
    ///
    /// The lock of the store is held exclusively. The directories of layers move to the trash.
    pub(super) fn sweep(&self) -> Result<u64, StoreError> {
        let mut blobs = BTreeSet::new();
        let mut layers = self.locked_layers()?;
        let named = self.name_records()?.into_iter().map(|(record, _)| record.parts);
        for parts in named.chain(self.protected()?.into_values().flatten()) {
            blobs.extend([parts.target, parts.manifest, parts.config]);
            layers.extend(parts.layers);
        }
        for name in names(&self.path("blobs"))? {
            if Digest::from_file_name(&name).is_none_or(|digest| !blobs.contains(&digest)) {
                delete_file(&self.path("blobs").join(name))?;
            }
        }
        let mut freed_bytes = 0;
        for name in names(&self.path("layers"))? {
            let digest = Digest::from_file_name(name.strip_suffix(".json").unwrap_or(&name));
            match digest {
                Some(layer) if layers.contains(&layer) && self.has_layer(&layer)? => {}
                Some(layer) => freed_bytes += self.retire_layer(&layer)?,
                None => delete_file(&self.path("layers").join(name))?,
            }
        }
        Ok(freed_bytes)
    }

    /// Returns the names of images that nothing uses, least recently used first.
    fn unused(&self, in_use: &BTreeSet<ImageId>) -> Result<Vec<NameRecord>, StoreError> {
        let protected = self.protected()?;
        let mut records = self.name_records()?;
        records.retain(|(record, _)| {
            let is_protected = protected.values().any(|images| images.contains(&record.parts));
            !is_protected && !in_use.contains(&ImageId(record.parts.config.clone()))
        });
        records.sort_by_key(|(_, last_used)| *last_used);
        Ok(records.into_iter().map(|(record, _)| record).collect())
    }

    /// Deletes downloads that no process continues, from a certain age.
    fn collect_downloads(&self, age: Duration) -> Result<(), StoreError> {
        let directory = self.path("downloads");
        for name in names(&directory)? {
            let path = directory.join(name);
            let modified = match fs::metadata(&path).and_then(|metadata| metadata.modified()) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                modified => modified.map_err(StoreError::at(&path))?,
            };
            let is_old = SystemTime::now()
                .duration_since(modified)
                .is_ok_and(|since| since >= age);
            if is_old && let Some(file) = LockedFile::try_lock(&path).map_err(StoreError::at(&path))? {
                file.delete().map_err(StoreError::at(&path))?;
            }
        }
        Ok(())
    }
}

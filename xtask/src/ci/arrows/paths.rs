//! From a path to the file that defines what it names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::module::{CratePath, Module};

/// Re-exports that are followed before a path is given up.
const MAX_RE_EXPORTS: u32 = 16;

/// The file that defines the item of a path, and the item's name. None for a module, and for a name
/// that the crate does not define, such as a macro's.
pub(super) fn definition(
    modules: &BTreeMap<CratePath, Module>,
    path: &[String],
) -> Option<(PathBuf, String)> {
    follow(modules, path, MAX_RE_EXPORTS)
}

fn follow(
    modules: &BTreeMap<CratePath, Module>,
    path: &[String],
    re_exports: u32,
) -> Option<(PathBuf, String)> {
    let depth = (0..path.len()).rev().find(|depth| modules.contains_key(&path[..*depth]))?;
    if modules.contains_key(path) {
        return None;
    }
    let (module, name) = (&modules[&path[..depth]], &path[depth]);
    if module.items.contains(name) {
        return Some((module.file.clone(), name.clone()));
    }
    let re_exports = re_exports.checked_sub(1)?;
    let rest = &path[depth + 1..];
    if let Some(target) = module.names.get(name) {
        let target: CratePath = target.iter().chain(rest).cloned().collect();
        return follow(modules, &target, re_exports);
    }
    module.globs.iter().find_map(|glob| {
        let target: CratePath = glob.iter().chain(&path[depth..]).cloned().collect();
        follow(modules, &target, re_exports)
    })
}

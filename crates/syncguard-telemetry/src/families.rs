//! Names for groups of keys.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use syncguard_core::Key;

type Name = dyn Fn(&Key) -> Cow<'static, str> + Send + Sync;

/// The function that names families, and the names that it has given.
pub(crate) struct Families {
    name: Box<Name>,
    seen: Mutex<BTreeSet<Arc<str>>>,
    other: Arc<str>,
}

impl Families {
    /// The most names. A metric keeps a series for each name.
    pub(crate) const MAX: usize = 100;

    /// The family of all keys beyond that.
    pub(crate) const OTHER: &str = "other";

    pub(crate) fn new(name: impl Fn(&Key) -> Cow<'static, str> + Send + Sync + 'static) -> Self {
        Self { name: Box::new(name), seen: Mutex::default(), other: Arc::from(Self::OTHER) }
    }

    pub(crate) fn other(&self) -> Arc<str> {
        Arc::clone(&self.other)
    }

    /// The family of a key. The first names are kept for ever; later ones are `other` for ever.
    pub(crate) fn of(&self, key: &Key) -> Arc<str> {
        // Foreign code runs outside the lock.
        let name = (self.name)(key);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.get(name.as_ref()) {
            return Arc::clone(known);
        }
        if seen.len() >= Self::MAX {
            return self.other();
        }
        let name = Arc::from(name);
        seen.insert(Arc::clone(&name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_names_is_bounded_and_each_key_keeps_its_own() {
        let families = Families::new(|key| key.expose().to_owned().into());
        let keys: Vec<Key> = (0..150).map(|n| Key::new(format!("user:{n}")).unwrap()).collect();
        for _ in 0..2 {
            for (number, key) in keys.iter().enumerate() {
                let wanted = if number < Families::MAX { key.expose() } else { "other" };
                assert_eq!(&*families.of(key), wanted);
            }
        }
    }
}

//! Data that a fence protects, in a real store.
//!
//! A holder first claims the register: it reads the value and leaves its fence. Then it writes. Both are refused
//! after a higher fence was left. The claim matters as much as the write: if only writes left the fence, a late
//! holder could still write between its successor's read and its successor's write, and that update would be lost.

mod firestore;
mod postgres;
mod redis;
mod sqlite;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard::Fence;

pub use firestore::emulator_client;
pub use postgres::POSTGRES_SCHEMA;

use syncguard_history::{Answer, Call, Entry, Recorder};

/// The contents of a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The number that the holders increment.
    pub value: u64,
    /// The number of accepted writes, counted by the store in the write itself.
    pub writes: u64,
    /// The highest fence so far.
    pub fence: u64,
}

/// The registers of one store.
#[derive(Clone)]
pub struct Registers {
    store: Store,
    recorder: Recorder,
}

#[derive(Clone)]
enum Store {
    Memory(Memory),
    Redis(redis::Redis),
    Postgres(postgres::Postgres),
    Firestore(Box<firestore::Firestore>),
    Sqlite(sqlite::Sqlite),
}

impl std::fmt::Debug for Registers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registers").finish_non_exhaustive()
    }
}

impl Registers {
    /// Registers in this process.
    #[must_use]
    pub fn in_memory(memory: Memory, recorder: Recorder) -> Self {
        Self { store: Store::Memory(memory), recorder }
    }

    /// Registers in the store with this URL: see [`fleet::connect`](crate::fleet::connect).
    ///
    /// # Errors
    ///
    /// If the store cannot be reached.
    pub async fn connect(url: &str, recorder: Recorder) -> Result<Self> {
        let (scheme, _) = url.split_once(':').context("a URL")?;
        let store = match scheme {
            "redis" => Store::Redis(redis::Redis::connect(url).await?),
            "postgres" => Store::Postgres(postgres::Postgres::connect(url).await?),
            "sqlite" => Store::Sqlite(sqlite::Sqlite::open(url)?),
            _ => Store::Firestore(Box::new(firestore::Firestore::connect(url)?)),
        };
        Ok(Self { store, recorder })
    }

    /// The same registers with another recorder.
    #[must_use]
    pub fn recorded_by(&self, recorder: Recorder) -> Self {
        Self { store: self.store.clone(), recorder }
    }

    /// Reads a register and leaves the fence. `None` if the register has a higher one.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn claim(&self, register: &str, fence: Fence) -> Result<Option<u64>> {
        let call = Call::Claim { register: register.to_owned(), fence: fence.get() };
        let pending = self.recorder.call(call);
        let result = in_time(async {
            match &self.store {
                Store::Memory(store) => Ok(store.claim(register, fence.get())),
                Store::Redis(store) => store.claim(register, fence.get()).await,
                Store::Postgres(store) => store.claim(register, fence.get()).await,
                Store::Firestore(store) => store.claim(register, fence.get()).await,
                Store::Sqlite(store) => store.claim(register, fence.get()).await,
            }
        });
        let result = result.await;
        pending.answer(match &result {
            Ok(Some(value)) => Answer::Claimed { value: *value },
            Ok(None) => Answer::Rejected,
            Err(_) => unknown(),
        });
        result
    }

    /// Writes a register; returns whether the write was accepted.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn write(&self, register: &str, fence: Fence, value: u64) -> Result<bool> {
        let call = Call::Write { register: register.to_owned(), fence: fence.get(), value };
        let pending = self.recorder.call(call);
        let result = in_time(async {
            match &self.store {
                Store::Memory(store) => Ok(store.write(register, fence.get(), value)),
                Store::Redis(store) => store.write(register, fence.get(), value).await,
                Store::Postgres(store) => store.write(register, fence.get(), value).await,
                Store::Firestore(store) => store.write(register, fence.get(), value).await,
                Store::Sqlite(store) => store.write(register, fence.get(), value).await,
            }
        });
        let result = result.await;
        pending.answer(match &result {
            Ok(true) => Answer::Written,
            Ok(false) => Answer::Rejected,
            Err(_) => unknown(),
        });
        result
    }

    /// Records the contents of a register.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn note(&self, register: &str) -> Result<State> {
        let state = match &self.store {
            Store::Memory(store) => store.state(register),
            Store::Redis(store) => store.state(register).await?,
            Store::Postgres(store) => store.state(register).await?,
            Store::Firestore(store) => store.state(register).await?,
            Store::Sqlite(store) => store.state(register).await?,
        };
        let State { value, writes, .. } = state;
        self.recorder.note(Entry::Register { register: register.to_owned(), value, writes });
        Ok(state)
    }

    /// Closes the connection; its tasks end.
    pub async fn close(self) {
        if let Store::Redis(store) = self.store {
            store.close().await;
        }
    }
}

/// The connection to the registers is never broken; a busy server gets time.
async fn in_time<T>(operation: impl Future<Output = Result<T>>) -> Result<T> {
    let bound = Duration::from_secs(10);
    tokio::time::timeout(bound, operation).await.context("a register that does not answer")?
}

fn unknown() -> Answer {
    Answer::Failed { code: "register".to_owned(), unknown: true }
}

/// Registers of this process.
#[derive(Clone, Debug)]
pub struct Memory {
    states: Arc<Mutex<HashMap<String, State>>>,
    fenced: bool,
}

impl Memory {
    /// Registers that refuse lower fences, or, to check that the run notices it, accept them.
    #[must_use]
    pub fn new(fenced: bool) -> Self {
        Self { states: Arc::default(), fenced }
    }

    fn claim(&self, register: &str, fence: u64) -> Option<u64> {
        self.change(register, fence, |state| state.value)
    }

    fn write(&self, register: &str, fence: u64, value: u64) -> bool {
        let write = |state: &mut State| (state.value, state.writes) = (value, state.writes + 1);
        self.change(register, fence, write).is_some()
    }

    fn change<T>(
        &self,
        register: &str,
        fence: u64,
        work: impl FnOnce(&mut State) -> T,
    ) -> Option<T> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.entry(register.to_owned()).or_default();
        if self.fenced && fence < state.fence {
            return None;
        }
        state.fence = fence;
        Some(work(state))
    }

    fn state(&self, register: &str) -> State {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(register).copied().unwrap_or_default()
    }
}

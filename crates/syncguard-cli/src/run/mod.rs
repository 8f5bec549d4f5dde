//! `syncguard run`: a command under a lock.

#[cfg(feature = "permits")]
mod beyond;
mod hold;
mod job;
pub(crate) mod keeper;
pub(crate) mod launch;
mod lock_file;
mod nested;
mod options;
mod program;
mod supervise;
mod terminal;
mod waiting;

pub(crate) use self::options::Options;

use std::time::Duration;

use syncguard::DynBackend;

use self::hold::Asked;
use self::job::Job;
use self::lock_file::LockFile;
use self::supervise::{Ended, UNKNOWN, supervise};
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::signals::Signals;
use crate::store::{Store, without_password};
use crate::time::human;

pub(crate) async fn run(
    options: &Options,
    store: &Store,
    output: Output,
) -> Result<Status, Failure> {
    let mut wish = options.wish()?;
    wish.is_own = nested::is_own(&options.key, store, wish.permits.is_some());
    // A command that cannot be started needs no lock.
    let program = program::find(options.program())?;
    let mut signals = Signals::listen()?;
    let backend = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(Status::of_signal(signal.as_raw())),
        connected = store.connect() => connected?,
    };

    let asked = hold::ask(&backend, &wish, &mut signals, output).await;
    let hold = match asked {
        Ok(Asked::Held(hold)) => hold,
        Ok(Asked::Interrupted(signal)) => {
            drain(&backend).await;
            return Ok(Status::of_signal(signal.as_raw()));
        }
        Err(failure) => {
            drain(&backend).await;
            if failure.status() != Status::CONFLICT {
                return Err(failure);
            }
            // Contention is a result and no error, so `--quiet` hides its message.
            output.note(&failure);
            return Ok(options.conflict_exit_code.map_or(Status::CONFLICT, Status::new));
        }
    };

    let mut environment = vec![
        ("SYNCGUARD_KEY", options.key.clone()),
        ("SYNCGUARD_FENCE", hold.held().fence().to_string()),
        ("SYNCGUARD_STORE", without_password(store.expose())),
    ];
    environment.extend(hold.slot().map(|slot| ("SYNCGUARD_SLOT", slot.to_string())));
    let file = store.file().and_then(LockFile::at);
    let (held, on_loss) = (hold.held(), options.on_loss());
    let allowed = supervise::allowed(&held, on_loss);
    let ended = match Job::start(&program, options.arguments(), &environment, allowed).await {
        Ok(job) => supervise(job, &held, &on_loss, file, &mut signals, output).await,
        Err(failure) => Err(failure),
    };
    let released = hold.release().await;
    drain(&backend).await;
    let Ended { status, was_lost } = ended?;
    match released {
        _ if was_lost => Ok(Status::LOST),
        Ok(released) if released.is_released() => Ok(status),
        Ok(_) => Err(Failure::new(
            Status::LOST,
            format!("when the command had ended, {UNKNOWN}; others may have run meanwhile"),
        )),
        Err(error) => {
            let ttl = human(options.ttl);
            output.error(format!(
                "the lock could not be given back and ends by itself within {ttl}: {}",
                Failure::from(error)
            ));
            Ok(status)
        }
    }
}

/// Lets the library release locks that were granted too late. A lock that it cannot release in this
/// time ends by its TTL.
async fn drain(backend: &DynBackend) {
    const LONGEST: Duration = Duration::from_secs(5);
    let _ = backend.drained(LONGEST).await;
}

//! `syncguard run`: a command under a lock.

mod acquire;
mod allowance;
mod group;
mod guard;
mod job;
pub(crate) mod launch;
mod lock_file;
mod nested;
mod options;
mod permit_mismatch;
mod program;
mod request;
mod ride_out;
mod runner;
mod sharing;
mod supervise;
mod terminal;
mod this_program;
#[cfg(feature = "ticks")]
mod tick_options;
#[cfg(feature = "ticks")]
mod ticks;
mod wait_display;
pub(crate) mod watchdog;

use self::acquire::take_any;
pub(crate) use self::acquire::{Acquired, acquire, finish_releases, take_lock};
pub(crate) use self::options::Options;
pub(crate) use self::request::LockRequest;
#[cfg(feature = "ticks")]
pub(crate) use self::tick_options::schedule;

use self::runner::Runner;
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::signals::Signals;
use crate::store::Store;

pub(crate) async fn run(
    options: &Options,
    store: Store,
    output: Output,
) -> Result<Status, Failure> {
    let request = options.lock_request()?;
    let store = store.with_parameters(options.holder.given()?);
    // A command that cannot be started needs no lock.
    let program = program::find(options.program(), options.arguments())?;
    let mut signals = Signals::listen()?;
    #[cfg(feature = "ticks")]
    if let Some(expression) = &options.ticks.tick {
        return ticks::run(expression, options, &request, &program, &store, &mut signals, output)
            .await;
    }
    let acquired = acquire(&store, &options.key, &request, &mut signals, output, take_any).await?;
    let (backend, guard) = match acquired {
        Acquired::Held(backend, guard) => (backend, guard),
        Acquired::Ended(status) => return Ok(status),
    };

    let slot = guard.slot.map(|slot| ("SYNCGUARD_SLOT", slot.to_string()));
    let sharing = request.sharing.map(|sharing| (sharing::VARIABLE, sharing.name().to_owned()));
    let runner = Runner { options, program: &program, store: &store, output };
    let variables = slot.into_iter().chain(sharing);
    let ended = runner.run(&guard.held, variables, &mut signals).await;
    let released = guard.release.await.map_err(Failure::from);
    let status = ended.and_then(|ended| runner.status(&ended, released));
    finish_releases(&backend).await;
    status
}

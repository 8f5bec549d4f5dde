//! `cargo xtask bench cost`: what the store and the client pay for an operation, beside an earlier state of the library.
//!
//! Each figure is of a process of its own, the `probe`, built here and from the commit after `--baseline` (`none` for no
//! other). Figures are counts where there are any: instructions of the server under callgrind, which needs valgrind, bytes of
//! log, requests, wake-ups and allocations. Times are of the processor. `--write` puts them into the pages. `--store`
//! chooses one store, and `--locks` how many are held and waited for.

mod baseline;
mod by_hand;
mod callgrind;
mod idle;
mod page;
mod probe;
mod rows;
mod server;
mod working;

use anyhow::Result;
use syncguard_bench::Options;

use crate::baseline::BASELINE;
use crate::probe::Probe;
use crate::rows::Figures;
use crate::server::Kind;

/// How much is done.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Of a count that is exact to 1 %.
    pub(crate) cycles: usize,
    pub(crate) rounds: usize,
    pub(crate) locks: usize,
    pub(crate) seconds: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&["--baseline", "--store", "--locks", "--write"])?;
    let seconds = options.time(20_000)?.as_secs_f64();
    let locks = options.value("--locks").unwrap_or("10000").parse()?;
    let size = if seconds < 1.0 {
        Size { cycles: 2, rounds: 1, locks, seconds }
    } else {
        Size { cycles: 40, rounds: 5, locks, seconds }
    };
    let mut probes = vec![Probe::here()?];
    match options.value("--baseline").unwrap_or(BASELINE) {
        "none" => {}
        commit => probes.insert(0, baseline::build(commit)?),
    }
    let mut figures = Figures::new(probes.len());
    // The figures from before a failure are printed as well.
    let measured = measure(&options, &probes, size, &mut figures).await;
    let report = figures.print();
    measured?;
    if options.write {
        page::write(&figures)?;
    }
    report.end(options.check)
}

async fn measure(
    options: &Options,
    probes: &[Probe],
    size: Size,
    figures: &mut Figures,
) -> Result<()> {
    for kind in [Kind::Redis, Kind::Postgres] {
        if options.wants("--store", |store| store == kind.name()) {
            working::measure(kind, probes, size, figures).await?;
            by_hand::measure(kind, size, figures).await?;
            idle::many(kind, probes, size, figures).await?;
        }
    }
    for kind in Kind::ALL {
        if options.wants("--store", |store| store == kind.name()) {
            idle::one(kind, probes, size, figures).await?;
        }
    }
    if options.wants("--store", |store| store == "memory") {
        working::guard(probes, size, figures).await?;
    }
    Ok(())
}

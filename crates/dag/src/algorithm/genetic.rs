//! A genetic search. A genome is an order that respects every edge and a machine for every task; a child takes the
//! head of one parent's order and the rest as the other has it, and each task's machine from either; mutation moves
//! tasks as far as their edges let them and sends tasks to other machines. Seeded with HEFT; parents are chosen by
//! tournament; a child takes the place of the worst. Fitness is the run's objective: the published form minimises
//! the mean wait.

use super::genome::Genome;
use super::run::{Algorithm, Plan, Run};
use super::workbench::{Leaning, Workbench};
use crate::instance::Instance;
use crate::random::SplitMix64;

const POPULATION: usize = 24;
const TOURNAMENT: usize = 3;
/// After so many children without a better one all but the best make room for newcomers.
const PATIENCE: usize = 60 * POPULATION;

fn genetic(instance: &Instance, run: &mut Run<'_>) -> Plan {
    let mut bench = Workbench::new(instance, run);
    if instance.tasks() > 0 {
        evolve(&mut bench);
    }
    Plan { winner: None, ..bench.plan() }
}

fn evolve(bench: &mut Workbench<'_, '_, '_>) -> Option<()> {
    let instance = bench.instance;
    let mut draw = SplitMix64::new(bench.run.seed);
    let mut population = vec![(bench.best.value, Genome::of(instance, &bench.best.schedule))];
    let order = bench.order.clone();
    for (foresight, thrift) in [(0.4, 0.3), (0.0, 1.5)] {
        let schedule = bench.make(&order, Leaning { foresight, thrift })?;
        population.push((bench.offer(&schedule, "genetic"), Genome::of(instance, &schedule)));
    }
    loop {
        while population.len() < POPULATION {
            let mut genome = population[draw.index(population.len())].1.clone();
            genome.mutate(instance, 2 + instance.tasks() / 10, &mut draw);
            population.push((judge(bench, &genome)?, genome));
        }
        generations(bench, &mut population, &mut draw)?;
        population.sort_by(|a, b| a.0.total_cmp(&b.0));
        population.truncate(1);
    }
}

/// Children until they are no better for long.
fn generations(
    bench: &mut Workbench<'_, '_, '_>,
    population: &mut [(f64, Genome)],
    draw: &mut SplitMix64,
) -> Option<()> {
    let mut fittest = population.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let mut left = PATIENCE;
    while left > 0 {
        left -= 1;
        let (mother, father) = (select(population, draw), select(population, draw));
        let mut child = population[mother].1.cross(&population[father].1, draw);
        child.mutate(bench.instance, 1 + bench.instance.tasks() / 50, draw);
        let value = judge(bench, &child)?;
        if value < fittest {
            (fittest, left) = (value, PATIENCE);
        }
        let by_value = |a: &usize, b: &usize| population[*a].0.total_cmp(&population[*b].0);
        let worst = (0..population.len()).max_by(by_value)?;
        // A twin of one that is there brings nothing.
        if value < population[worst].0
            && population.iter().all(|p| p.0 != value || p.1.machine != child.machine)
        {
            population[worst] = (value, child);
        }
    }
    Some(())
}

fn judge(bench: &mut Workbench<'_, '_, '_>, genome: &Genome) -> Option<f64> {
    let schedule = bench.make_on(&genome.order, |task| genome.machine[task])?;
    Some(bench.offer(&schedule, "genetic"))
}

/// The fittest of a few.
fn select(population: &[(f64, Genome)], draw: &mut SplitMix64) -> usize {
    let mut fittest = draw.index(population.len());
    for _ in 1..TOURNAMENT {
        let other = draw.index(population.len());
        if population[other].0 < population[fittest].0 {
            fittest = other;
        }
    }
    fittest
}

pub(super) const DEF: Algorithm = Algorithm {
    name: "genetic",
    summary: "genetic search over orders and machines, seeded with heft",
    origin: "after the published form: selection, crossover and mutation that keep precedence",
    searches: true,
    plan: genetic,
};

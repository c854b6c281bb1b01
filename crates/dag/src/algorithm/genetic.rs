//! Genetic algorithm over orders and machines: one-point crossover of orders, range crossover of machines, mutation
//! within precedence windows, tournament selection, replacement of the worst. Seeded with HEFT. Fitness is the
//! objective of the search; the published form minimises the mean wait.

use super::definition::{Algorithm, Plan, SearchOptions};
use super::genome::Genome;
use super::search_context::{BiasWeights, SearchContext};
use crate::instance::Instance;
use crate::random::SplitMix64;

const POPULATION: usize = 24;
const TOURNAMENT: usize = 3;
/// Children without an improvement before the population restarts from its fittest member.
const PATIENCE: usize = 60 * POPULATION;

fn genetic(instance: &Instance, options: &mut SearchOptions<'_>) -> Plan {
    let mut context = SearchContext::new(instance, options);
    if instance.tasks() > 0 {
        evolve(&mut context);
    }
    Plan { winner: None, ..context.plan() }
}

fn evolve(context: &mut SearchContext<'_, '_, '_>) -> Option<()> {
    let instance = context.instance;
    let mut draw = SplitMix64::new(context.options.seed);
    let mut population = vec![(context.incumbent.value, Genome::of(instance, &context.incumbent.schedule))];
    let order = context.order.clone();
    for (foresight, thrift) in [(0.4, 0.3), (0.0, 1.5)] {
        let schedule = context.schedule_in_order(&order, BiasWeights { foresight, thrift })?;
        population.push((context.record(&schedule, "genetic"), Genome::of(instance, &schedule)));
    }
    loop {
        while population.len() < POPULATION {
            let mut genome = population[draw.index(population.len())].1.clone();
            genome.mutate(instance, 2 + instance.tasks() / 10, &mut draw);
            population.push((evaluate(context, &genome)?, genome));
        }
        generations(context, &mut population, &mut draw)?;
        population.sort_by(|a, b| a.0.total_cmp(&b.0));
        population.truncate(1);
    }
}

/// Breeds children until [`PATIENCE`] of them in a row brought no improvement.
fn generations(
    context: &mut SearchContext<'_, '_, '_>,
    population: &mut [(f64, Genome)],
    draw: &mut SplitMix64,
) -> Option<()> {
    let mut fittest = population.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let mut left = PATIENCE;
    while left > 0 {
        left -= 1;
        let (mother, father) = (select(population, draw), select(population, draw));
        let mut child = population[mother].1.cross(&population[father].1, draw);
        child.mutate(context.instance, 1 + context.instance.tasks() / 50, draw);
        let value = evaluate(context, &child)?;
        if value < fittest {
            (fittest, left) = (value, PATIENCE);
        }
        let by_value = |a: &usize, b: &usize| population[*a].0.total_cmp(&population[*b].0);
        let worst = (0..population.len()).max_by(by_value)?;
        // A duplicate of a present genome would only reduce diversity.
        if value < population[worst].0
            && population.iter().all(|p| p.0 != value || p.1.machine != child.machine)
        {
            population[worst] = (value, child);
        }
    }
    Some(())
}

fn evaluate(context: &mut SearchContext<'_, '_, '_>, genome: &Genome) -> Option<f64> {
    let schedule = context.schedule_on(&genome.order, |task| genome.machine[task])?;
    Some(context.record(&schedule, "genetic"))
}

/// Tournament selection: the fittest of a few random genomes.
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

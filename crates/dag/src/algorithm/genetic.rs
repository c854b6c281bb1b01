//! A genetic search. A genome is an order that respects every edge and a machine for every task; a child takes the
//! head of one parent's order and the rest as the other has it, and each task's machine from either; mutation moves
//! tasks as far as their edges let them and sends tasks to other machines. Seeded with HEFT; parents are chosen by
//! tournament; a child takes the place of the worst. Fitness is the run's objective: the published form minimises
//! the mean wait.

use super::run::{Algorithm, Plan, Run};
use super::workbench::{Leaning, Workbench, starts};
use crate::instance::Instance;
use crate::random::SplitMix64;
use crate::schedule::Schedule;

const POPULATION: usize = 24;
const TOURNAMENT: usize = 3;

#[derive(Debug, Clone)]
struct Genome {
    order: Vec<u32>,
    machine: Vec<u32>,
}

impl Genome {
    fn of(instance: &Instance, schedule: &Schedule) -> Self {
        let machine = schedule.slots.iter().map(|slot| slot.machine).collect();
        Self { order: starts(instance, schedule), machine }
    }

    /// The head of `self`'s order, the rest in the order of `other`: each task still after those it waits for.
    fn cross(&self, other: &Self, draw: &mut SplitMix64) -> Self {
        let head = draw.index(self.order.len() + 1);
        let mut taken = vec![false; self.order.len()];
        let mut order = self.order[..head].to_vec();
        order.iter().for_each(|task| taken[*task as usize] = true);
        order.extend(other.order.iter().filter(|task| !taken[**task as usize]));
        // Machines come in stretches, so that tasks that fit together stay together.
        let mut machine = self.machine.clone();
        let (a, b) = (draw.index(machine.len() + 1), draw.index(machine.len() + 1));
        let stretch = a.min(b)..a.max(b);
        for task in &order[stretch] {
            machine[*task as usize] = other.machine[*task as usize];
        }
        Self { order, machine }
    }

    fn mutate(&mut self, instance: &Instance, draw: &mut SplitMix64) {
        let tasks = self.order.len();
        let moves = 1 + draw.index(1 + tasks / 50);
        let mut position = vec![0usize; tasks];
        self.order.iter().enumerate().for_each(|(at, task)| position[*task as usize] = at);
        for _ in 0..moves {
            let task = draw.index(tasks);
            if draw.below(2) == 0 {
                self.machine[task] = another_machine(instance, task, draw);
            } else {
                self.shift(instance, task, &mut position, draw);
            }
        }
    }

    /// Moves a task to a place between the last it waits for and the first that waits for it.
    fn shift(&mut self, instance: &Instance, task: usize, position: &mut [usize], draw: &mut SplitMix64) {
        /// Further moves cost more than they bring.
        const FAR: usize = 500;
        let at = position[task];
        let place = |edge: &(u32, f64)| position[edge.0 as usize];
        let low = instance.predecessors(task).iter().map(place).max().map_or(0, |last| last + 1);
        let high = instance.successors(task).iter().map(place).min().unwrap_or(position.len());
        let (low, high) = (low.max(at.saturating_sub(FAR)), high.min(at + FAR + 1));
        let to = low + draw.index(high - low);
        if to < at {
            self.order[to..=at].rotate_right(1);
        } else {
            self.order[at..=to].rotate_left(1);
        }
        for place in at.min(to)..=at.max(to) {
            position[self.order[place] as usize] = place;
        }
    }
}

/// The cheapest of a few machines drawn at random.
fn another_machine(instance: &Instance, task: usize, draw: &mut SplitMix64) -> u32 {
    let costs = instance.costs(task);
    let drawn = [0; 4].map(|_| draw.index(costs.len()));
    let few = 1 + draw.index(drawn.len());
    drawn[..few].iter().copied().min_by(|a, b| costs[*a].total_cmp(&costs[*b])).map_or(0, |m| m as u32)
}

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
    let heft = Genome::of(instance, &bench.best.schedule);
    let mut population = vec![(bench.best.value, heft.clone())];
    let order = bench.order.clone();
    for (foresight, thrift) in [(0.4, 0.3), (0.0, 1.5)] {
        let schedule = bench.make(&order, Leaning { foresight, thrift })?;
        population.push((bench.offer(&schedule, "genetic"), Genome::of(instance, &schedule)));
    }
    while population.len() < POPULATION {
        let mut genome = population[draw.index(population.len())].1.clone();
        genome.mutate(instance, &mut draw);
        population.push((judge(bench, &genome)?, genome));
    }
    loop {
        let (mother, father) = (select(&population, &mut draw), select(&population, &mut draw));
        let mut child = population[mother].1.cross(&population[father].1, &mut draw);
        child.mutate(instance, &mut draw);
        let value = judge(bench, &child)?;
        let by_value = |a: &usize, b: &usize| population[*a].0.total_cmp(&population[*b].0);
        let worst = (0..population.len()).max_by(by_value)?;
        if value <= population[worst].0 {
            population[worst] = (value, child);
        }
    }
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

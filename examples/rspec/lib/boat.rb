# A boat that carries what fits.
class Boat
  Overloaded = Class.new(StandardError)

  attr_reader :cargo

  def initialize(capacity)
    @capacity = capacity
    @cargo = []
  end

  def load(name, tons)
    raise Overloaded, "#{name} is #{tons - free} t too much" if tons > free

    @cargo << [name, tons]
    self
  end

  def free
    @capacity - @cargo.sum { |_, tons| tons }
  end
end
